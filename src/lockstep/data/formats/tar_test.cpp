#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/data/member_groups.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/tar_members.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string archive;
  for (const auto& [name, bytes] : members) {
    archive += tar_header(name, bytes.size()) + bytes + tar_padding(bytes.size());
  }
  return archive + tar_end();
}

std::string npy_of(const std::vector<std::int64_t>& shape, const std::vector<float>& numbers) {
  std::string bytes = npy_header(ScalarType::Float, shape);
  return bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
}

TEST(Tar, MembersOfOneKeyAreASample) {
  const Folder folder;
  const auto set = open(folder.write("x.tar", tar_of({{"./train/0001.jpg", "JPEG1"},
                                                      {"./train/0001.cls", "7\n"},
                                                      {"./train/._0001.jpg", "from a Mac"},
                                                      {"__MACOSX/train/0001.cls", "from a Mac"},
                                                      {"README", "no sample"},
                                                      {"./train/0002.JPG", "JPEG2"},
                                                      {"./train/0002.cls", "-3"},
                                                      {"./train/0002.json", "{}"},
                                                      {"./train/0002.seg.png", "PNG"},
                                                      {"./train/0002.meta.x", "raw"}})));
  ASSERT_EQ(set->size(), 2);
  ASSERT_EQ(set->schema().size(), 5U);
  EXPECT_EQ(set->schema()[0].text(), "jpg: jpeg");
  EXPECT_EQ(set->schema()[1].text(), "cls: int64");
  EXPECT_EQ(set->schema()[2].text(), "json: text");
  EXPECT_EQ(set->schema()[3].text(), "seg: png");
  EXPECT_EQ(set->schema()[4].text(), "meta.x: raw");
  EXPECT_EQ(set->key(1), "train/0002");
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "JPEG1");
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{7});
  EXPECT_TRUE(sample.values[2].missing);
  set->read(1, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "JPEG2");
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{-3});
  EXPECT_EQ(as_text(sample.values[3].bytes), "PNG");
  EXPECT_TRUE(has(set->name(0), "x.tar: sample 0 'train/0001' at byte 512")) << set->name(0);
}

TEST(Tar, ArraysOfOtherSizesMakeTheDimOpen) {
  const Folder folder;
  const auto set = open(
      folder.write("x.tar", tar_of({{"0.x.npy", npy_of({2, 1}, {1, 2})}, {"1.x.npy", npy_of({3, 1}, {3, 4, 5})}})));
  EXPECT_EQ(set->schema()[0].text(), "x: float32[?, 1]");
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(sample.values[0].shape, (Shape{3, 1}));
  EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{3, 4, 5}));
}

TEST(Tar, ShardsAreReadAsOne) {
  const Folder folder;
  folder.write("part-0.tar", tar_of({{"0.npy", npy_of({1}, {1})}}));
  folder.write("part-1.tar", tar_of({{"1.npy", npy_of({2}, {2, 3})}}));
  const auto set = open(folder / "part-*.tar");
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->schema()[0].text(), "npy: float32[?]");
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(numbers_of<float>(sample.values[0]), std::vector<float>{1});
  folder.write("part-2.tar", tar_of({{"2.jpg", "JPEG"}}));
  const auto message = message_of([&] { open(folder / "part-*.tar"); });
  EXPECT_TRUE(has(message, "npy: float32[1] and jpg: jpeg") && has(message, "part-2.tar as one set")) << message;
}

TEST(Tar, IsReadCompressed) {
  const Folder folder;
  const auto plain = open(folder.write("x.tar", tar_of({{"0.txt", "zero"}, {"1.txt", "one"}})));
  const auto make = [&](const std::string& program, const std::string& name) {
    return std::system(fmt::format("{} <{} >{} 2>/dev/null", program, folder / "x.tar", folder / name).c_str()) == 0;
  };
  for (const std::string name : {"x.tar.gz", "x-0.tgz", "x-1.tgz"}) {
    ASSERT_TRUE(make("gzip", name));
    expect_same(*open(folder / name), *plain);
  }
  EXPECT_EQ(open(folder / "x-*.tgz")->size(), 2 * plain->size());
#if LOCKSTEP_HAS_LIBARCHIVE
  int read = 0;
  for (const std::string program : {"bzip2", "xz", "zstd"}) {
    const std::string ending = program == "bzip2" ? "bz2" : program == "zstd" ? "zst" : program;
    for (const std::string& name : {"x.tar." + ending, "x.t" + ending}) {
      if (!make(program, name)) continue;  // not every machine has them all
      expect_same(*open(folder / name), *plain);
      ++read;
    }
  }
  EXPECT_GT(read, 0);
#endif
  folder.write("torn.tgz", contents(folder / "x-0.tgz").substr(0, 40));
  EXPECT_TRUE(has(message_of([&] { open(folder / "torn.tgz"); }), "torn.tgz cannot be decompressed"));
}

TEST(Tar, IsRecognisedByItsBytes) {
  const Folder folder;
  EXPECT_EQ(open(folder.write("shard", tar_of({{"0.txt", "zero"}})))->size(), 1);
}

TEST(Tar, KeepsEveryFieldWhenWritten) {
  const Folder folder;
  const Schema schema = {{"image", Encoding::Jpeg},
                         {"png", Encoding::Png},
                         {"caption", Encoding::Text},
                         {"label", Encoding::Values, ScalarType::Long},
                         {"index", Encoding::Values, ScalarType::Long},
                         {"weight", Encoding::Values, ScalarType::Double},
                         {"boxes", Encoding::Values, ScalarType::Float, {-1, 2}},
                         {"flags", Encoding::Values, ScalarType::Bool, {2}},
                         {"blob", Encoding::Raw},
                         {"jpg", Encoding::Raw},
                         {"JPG", Encoding::Jpeg},
                         {"cls", Encoding::Text}};
  const std::vector<std::string> texts = {"JPEG bytes", "PNG bytes", "a caption\n", "blob",
                                          "no jpeg",    "JPEG 2",    "a class"};
  const std::vector<std::int64_t> label = {-5}, index = {1};
  const std::vector<double> weight = {0.25};
  const std::vector<float> boxes = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> flags = {1, 0};
  Sample sample;
  sample.clear(schema.size());
  sample.values = {value_of(texts[0]),  value_of(texts[1]),   value_of(texts[2]),      value_of(label, {}),
                   value_of(index, {}), value_of(weight, {}), value_of(boxes, {3, 2}), value_of(flags, {2}),
                   value_of(texts[3]),  value_of(texts[4]),   value_of(texts[5]),      value_of(texts[6])};
  const auto write = [&](const std::string& path) {
    const auto writer = format_named("tar").write(path, schema, {});
    writer->add("dir.x/one.two", sample);
    Sample second;
    second.clear(schema.size());
    for (auto& value : second.values) value.missing = true;
    second.values[6] = value_of(boxes, {1, 2});
    second.values[6].bytes = second.values[6].bytes.first(8);
    writer->add("dir.x/two", second);
    writer->finish();
  };
  write(folder / "x.tar");
  const auto set = open(folder / "x.tar");
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->key(0), "dir.x/one_two");
  Sample read;
  set->read(0, read);
  for (std::size_t place = 0; place < schema.size(); ++place) {
    const auto found = place_of(set->schema(), schema[place].name);
    EXPECT_EQ(set->schema()[found], schema[place]) << schema[place].text();
    EXPECT_EQ(read.values[found].shape, sample.values[place].shape) << schema[place].text();
    EXPECT_EQ(as_text(read.values[found].bytes), as_text(sample.values[place].bytes)) << schema[place].text();
  }
  set->read(1, read);
  EXPECT_TRUE(read.values[0].missing);
  EXPECT_EQ(read.values[place_of(set->schema(), "boxes")].shape, (Shape{1, 2}));
  write_all(*set, folder / "y.tar", "tar");
  expect_same(*open(folder / "y.tar"), *set);
  write(folder / "z.tar");
  EXPECT_EQ(contents(folder / "z.tar"), contents(folder / "x.tar"));
}

TEST(Tar, RefusesKeysAndFieldsThatWouldNotReadBack) {
  const Folder folder;
  const std::string some = "text";
  const auto message = [&](const Field& field, const std::vector<std::string>& keys, Fault fault) {
    return message_of(
        [&] {
          const auto writer = format_named("tar").write(folder / "bad.tar", {field}, {});
          Sample sample;
          sample.clear(1);
          sample.values[0] = value_of(some);
          for (const auto& key : keys) writer->add(key, sample);
        },
        fault);
  };
  const Field text = {"txt", Encoding::Text};
  EXPECT_TRUE(has(message(text, {"a", "a"}, Fault::Data), "two samples in a row have the key 'a'"));
  EXPECT_TRUE(has(message(text, {".git/a"}, Fault::Data), "hidden"));
  EXPECT_TRUE(has(message({"a/b", Encoding::Text}, {}, Fault::Usage), "'a/b'"));
  EXPECT_TRUE(has(message({"", Encoding::Text}, {}, Fault::Usage), "''"));
  EXPECT_FALSE(std::filesystem::exists(folder / "bad.tar"));
}

TEST(Tar, NamesWhatIsWrong) {
  const Folder folder;
  const auto opened = [&](const std::string& bytes) {
    return message_of([&] { open(folder.write("bad.tar", bytes)); });
  };
  const auto read = [&](const std::string& bytes, std::int64_t index) {
    const auto set = open(folder.write("bad.tar", bytes));
    Sample sample;
    return message_of([&] { set->read(index, sample); });
  };
  EXPECT_TRUE(has(opened(tar_of({{"0.jpg", "a"}, {"0.JPG", "b"}})),
                  "sample '0' has its field 'jpg' twice (while reading member '0.JPG' at byte 1024"));
  EXPECT_TRUE(has(opened(tar_of({{"0.a.jpg", "a"}, {"1.a.png", "b"}})),
                  "which are a: jpeg (while reading member '1.a.png' at byte 1024"));
  EXPECT_TRUE(has(opened(tar_of({{"0.npy", "no array"}})), "'0.npy' at byte 0"));
  EXPECT_TRUE(has(opened(tar_of({{"README", "x"}})), "holds no samples"));
  EXPECT_TRUE(has(opened(tar_of({{"0.txt", "x"}}).substr(0, 1200)), "cut short"));
  EXPECT_TRUE(has(read(tar_of({{"0.cls", "1"}, {"1.cls", "cat"}}), 1), "holds 'cat', which is no whole number"));
  EXPECT_TRUE(has(read(tar_of({{"0.cls", ""}}), 0), "no whole number"));
  const std::string pair = npy_of({2}, {1, 2});
  std::string other = pair;
  other.replace(other.find("<f4"), 3, "<i4");
  EXPECT_TRUE(
      has(read(tar_of({{"0.npy", pair}, {"1.npy", other}}), 1), "npy: int32[2], but the first one is npy: float32[2]"));
  EXPECT_TRUE(has(read(tar_of({{"0.npy", pair}, {"1.npy", npy_of({2, 1}, {1, 2})}}), 1), "float32[2, 1]"));
  EXPECT_TRUE(has(read(tar_of({{"0.npy", pair.substr(0, pair.size() - 1)}}), 0), "has 7 bytes instead of 8"));
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 300; ++i) many.emplace_back(fmt::format("{}.field{}", i, i), "x");
  EXPECT_TRUE(has(opened(tar_of(many)), "more than 256 kinds of files"));
}

}  // namespace
}  // namespace lockstep::data
