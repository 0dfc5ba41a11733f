#include <set>

#include <fmt/format.h>

#include "lockstep/data/pack.h"
#include "lockstep/data/testing.h"

#if LOCKSTEP_HAS_LMDB
#include <lmdb.h>

namespace lockstep::data {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

/// Files as other programs write them; `database` empty: the main one.
void put(const std::string& path, const Entries& entries, const std::string& database = "", unsigned flags = 0) {
  MDB_env* environment = nullptr;
  mdb_env_create(&environment);
  mdb_env_set_mapsize(environment, std::size_t{64} << 20);
  mdb_env_set_maxdbs(environment, 4);
  ASSERT_EQ(mdb_env_open(environment, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644), 0);
  MDB_txn* transaction = nullptr;
  mdb_txn_begin(environment, nullptr, 0, &transaction);
  MDB_dbi id = 0;
  mdb_dbi_open(transaction, database.empty() ? nullptr : database.c_str(), MDB_CREATE | flags, &id);
  for (const auto& [key, value] : entries) {
    MDB_val name = {key.size(), const_cast<char*>(key.data())};
    MDB_val bytes = {value.size(), const_cast<char*>(value.data())};
    ASSERT_EQ(mdb_put(transaction, id, &name, &bytes, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), 0);
  mdb_env_close(environment);
}

Entries many(std::size_t count) {
  Entries entries;
  for (std::size_t i = 0; i < count; ++i) {
    // Some fit into a page with others, some have pages of their own.
    entries.emplace_back(fmt::format("k{:06}", i), std::string(i % 97 == 0 ? 9000 : i % 50, static_cast<char>(i)));
  }
  return entries;
}

std::string text_of(const Dataset& set, std::int64_t sample) {
  Sample read;
  set.read(sample, read);
  return std::string(as_text(read.values[0].bytes));
}

TEST(Lmdb, ReadsWhatTheLibraryWrote) {
  const Folder folder;
  const std::string path = folder / "x.mdb";
  const Entries entries = many(5000);
  put(path, entries);
  const auto set = open(path);
  ASSERT_EQ(set->size(), 5000);
  EXPECT_EQ(set->schema()[0].text(), "value: raw");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i);
    ASSERT_EQ(set->key(sample), entries[i].first);
    ASSERT_EQ(text_of(*set, sample), entries[i].second);
  }
}

TEST(Lmdb, SeesTheLastTransaction) {
  const Folder folder;
  put(folder / "x.mdb", {{"a", "first"}});
  put(folder / "x.mdb", {{"a", "second"}, {"b", "more"}});
  const auto set = open(folder / "x.mdb");
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(text_of(*set, 0), "second");
}

TEST(Lmdb, KnowsWhatValuesAre) {
  const Folder folder;
  put(folder / "jpeg.mdb", {{"a", "\xFF\xD8\xFF one"}, {"b", "\xFF\xD8\xFF two"}});
  EXPECT_EQ(open(folder / "jpeg.mdb")->schema()[0].text(), "image: jpeg");
  put(folder / "text.mdb", {{std::string("\0\1", 2), "gr\xC3\xBC\xC3\x9F"}});
  const auto text = open(folder / "text.mdb");
  EXPECT_EQ(text->schema()[0].text(), "value: text");
  EXPECT_EQ(text->key(0), "0001");
  put(folder / "mixed.mdb", {{"a", "\xFF\xD8\xFF"}, {"b", "\x89PNG\r\n\x1A\n"}});
  EXPECT_EQ(open(folder / "mixed.mdb")->schema()[0].text(), "value: raw");
}

TEST(Lmdb, TakesASingleNamedDatabase) {
  const Folder folder;
  const std::string path = folder / "x.mdb";
  put(path, {{"a", "1"}, {"b", "2"}}, "train");
  EXPECT_EQ(open(path)->size(), 2);
  put(path, {{"a", "1"}}, "test");
  EXPECT_TRUE(has(message_of([&] { open(path); }), "the databases 'test', 'train'"));
  put(folder / "twice.mdb", {{"a", "1"}, {"a", "2"}}, "", MDB_DUPSORT);
  EXPECT_TRUE(has(message_of([&] { open(folder / "twice.mdb"); }), "several values"));
}

// ---- what is written ------------------------------------------------------------------------------

Schema all_fields() {
  Schema schema = fields_of_all_types({2, 3});
  schema.push_back({"label", Encoding::Values, c10::ScalarType::Long, {}, {"cat", "dog"}});
  schema.push_back({"ragged", Encoding::Values, c10::ScalarType::Float, {-1}});
  schema.push_back({"text", Encoding::Text});
  schema.push_back({"jpg", Encoding::Jpeg});
  return schema;
}

void write_samples(const std::string& path, const Schema& schema, std::int64_t count) {
  const auto writer = format_named("lmdb").write(path, schema, {});
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::string> bytes;
    Sample sample;
    sample.clear(schema.size());
    for (const auto& field : schema) {
      const std::int64_t ragged = i % 4;
      const std::size_t size =
          field.fixed() ? static_cast<std::size_t>(field.bytes()) : static_cast<std::size_t>(4 * ragged);
      auto& value = sample.values[bytes.size()];
      value.shape = field.fixed() ? Shape(field.shape.begin(), field.shape.end()) : Shape{ragged};
      if (field.encoding != Encoding::Values) value.shape.clear();
      value.missing = field.name == "text" && i == 3;
      bytes.emplace_back(size, static_cast<char>(i));
    }
    for (std::size_t place = 0; place < schema.size(); ++place) {
      if (!sample.values[place].missing) sample.values[place].bytes = as_bytes(bytes[place]);
    }
    writer->add(std::to_string(i), sample);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  writer->finish();
}

TEST(Lmdb, RecordsAreReadAsTheyWereWritten) {
  const Folder folder;
  const Schema schema = all_fields();
  write_samples(folder / "x.lmdb", schema, 25);
  const auto set = open(folder / "x.lmdb");
  ASSERT_EQ(set->size(), 25);
  EXPECT_EQ(set->schema(), schema);
  EXPECT_EQ(set->key(11), "000000000011");
  Sample sample;
  set->read(3, sample);
  EXPECT_TRUE(sample.values[place_of(schema, "text")].missing);
  set->read(6, sample);
  EXPECT_EQ(sample.values[place_of(schema, "ragged")].shape, (Shape{2}));
  EXPECT_EQ(as_text(sample.values[0].bytes), std::string(6, '\6'));
  write_all(*set, folder / "again.mdb", "lmdb");
  const auto again = open(folder / "again.mdb");
  expect_same(*again, *set);
  EXPECT_EQ(again->key(11), "000000000011");
  // The folder holds the data alone.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "x.lmdb"), {}), 1);
}

TEST(Lmdb, ReplacesAnEarlierFolderAndNoOther) {
  const Folder folder;
  const std::string path = folder / "x.lmdb";
  pack(open("blobs:samples=3"), path, {});
  const auto set = open("blobs:samples=5");
  pack(set, path, {});
  expect_same(*open(path), *set);
  folder.write("x.lmdb/notes.txt", "mine");
  EXPECT_TRUE(has(message_of([&] { pack(set, path, {}); }, Fault::Usage), "holds notes.txt, so it is not replaced"));
  std::filesystem::create_directory(folder / "y.lmdb");
  EXPECT_TRUE(has(message_of([&] { pack(set, folder / "y.lmdb", {}); }, Fault::Usage), "y.lmdb is a folder, and not"));
  EXPECT_EQ(open(path)->size(), 5);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "")) left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"x.lmdb", "x.lmdb.lsx", "y.lmdb"}));
}

TEST(Lmdb, OrderStaysWhateverTheKeys) {
  const Folder folder;
  const auto writer = format_named("lmdb").write(folder / "x.lmdb", {{"image", Encoding::Raw}}, {});
  // Ascending for longer than a batch, so that what is written already is numbered again.
  const std::int64_t ascending = 5000;
  Sample sample;
  const auto add = [&](const std::string& key) {
    sample.clear(1);
    sample.values[0] = value_of(key);
    writer->add(key, sample);
  };
  for (std::int64_t i = 0; i < ascending; ++i) add(fmt::format("k{:06}", i));
  add("a");
  add("k000007");
  writer->finish();
  const auto set = open(folder / "x.lmdb");
  ASSERT_EQ(set->size(), ascending + 2);
  EXPECT_EQ(text_of(*set, 4321), "k004321");
  EXPECT_EQ(text_of(*set, ascending), "a");
  EXPECT_EQ(set->key(ascending + 1), "000000005001_k000007");
}

TEST(Lmdb, TheMapGrows) {
  const Folder folder;
  const auto writer = format_named("lmdb").write(folder / "x.mdb", {{"value", Encoding::Raw}}, {});
  const std::string large(3 << 20, 'x');
  Sample sample;
  for (int i = 0; i < 50; ++i) {
    sample.clear(1);
    sample.values[0] = value_of(large);
    writer->add(fmt::format("{:03}", i), sample);
  }
  writer->finish();
  const auto set = open(folder / "x.mdb");
  EXPECT_EQ(set->size(), 50);
  EXPECT_EQ(text_of(*set, 49), large);
}

TEST(Lmdb, RefusesWhatItCannotHold) {
  const Folder folder;
  EXPECT_TRUE(has(message_of([&] { format_named("lmdb").write(folder / "x.lmdb", {}, {"deflate", 1}); }, Fault::Usage),
                  "cannot be compressed"));
  {
    const auto writer = format_named("lmdb").write(folder / "x.lmdb", {{"value", Encoding::Raw}}, {});
    Sample sample;
    sample.clear(1);
    EXPECT_TRUE(has(message_of([&] { writer->add(std::string(600, 'k'), sample); }), "has 600 bytes"));
    sample.values[0].missing = true;
    EXPECT_TRUE(has(message_of([&] { writer->add("a", sample); }), "no 'value'"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "")) << "what was not finished is left behind";
}

// ---- torn files -----------------------------------------------------------------------------------

TEST(Lmdb, CutFilesAreErrors) {
  const Folder folder;
  put(folder / "good.mdb", many(300));
  const std::string good = contents(folder / "good.mdb");
  for (std::size_t size = 0; size < good.size(); size += 1733) {
    EXPECT_FALSE(reads_all(folder.write("x.mdb", good.substr(0, size)))) << size << " of " << good.size() << " bytes";
  }
  EXPECT_TRUE(has(message_of([&] { open(folder.write("x.mdb", std::string(9000, 'x'))); }), "not an LMDB file"));
  EXPECT_TRUE(has(message_of([&] { open(folder.write("x.mdb", good.substr(0, 3 * 4096))); }), "torn at page"));
}

TEST(Lmdb, ChangedBytesAreErrorsOrOtherValues) {
  const Folder folder;
  write_samples(folder / "good.mdb", all_fields(), 20);
  const std::string good = contents(folder / "good.mdb");
  std::size_t refused = 0;
  for (std::size_t place = 0; place < good.size(); place += 97) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0xFF);
    refused += reads_all(folder.write("x.mdb", bad)) ? 0 : 1;
  }
  EXPECT_GT(refused, 20U);
}

}  // namespace
}  // namespace lockstep::data
#endif
