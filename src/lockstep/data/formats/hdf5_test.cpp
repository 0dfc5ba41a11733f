#include <gtest/gtest.h>

#include "lockstep/data/format.h"

#if LOCKSTEP_HAS_HDF5
#include <functional>
#include <numeric>

#include "lockstep/data/formats/hdf5_library.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

using namespace hdf5;
using Dims = std::vector<hsize_t>;

/// Files as other programs write them.
class MadeFile {
 public:
  explicit MadeFile(const std::string& path, hid_t properties = H5P_DEFAULT)
      : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties, H5P_DEFAULT)), links_(H5Pcreate(H5P_LINK_CREATE)) {
    H5Pset_create_intermediate_group(links_.get(), 1);
  }

  void add(const std::string& name, hid_t type, const Dims& dims, const void* values, hid_t properties = H5P_DEFAULT,
           hid_t memory_type = H5I_INVALID_HID) const {
    const SpaceId space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    const DatasetId id(
        checked(H5Dcreate2(id_.get(), name.c_str(), type, space.get(), links_.get(), properties, H5P_DEFAULT), name));
    const hid_t here = memory_type < 0 ? type : memory_type;
    if (values != nullptr) checked(H5Dwrite(id.get(), here, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), name);
  }
  hid_t id() const { return id_.get(); }

 private:
  FileId id_;
  PropertiesId links_;
};

PropertiesId in_chunks(const Dims& chunk, const std::function<void(hid_t)>& filters = {}) {
  PropertiesId properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
  if (filters) filters(properties.get());
  return properties;
}

std::vector<float> counted(std::size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.25F);
  return numbers;
}

/// The values of field 0 of all samples, one behind the other.
template <class Number>
std::vector<Number> all_of(const Dataset& set) {
  std::vector<Number> all;
  Sample sample;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.read(i, sample);
    const auto numbers = numbers_of<Number>(sample.values[0]);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

std::string text_of(const Dataset& set, std::int64_t sample, std::size_t field = 0) {
  Sample read;
  set.read(sample, read);
  return std::string(as_text(read.values[field].bytes));
}

Column::Layout layout_of(const std::string& path, std::size_t column = 0) {
  return index_of(path, {}).columns.at(column).layout;
}

TEST(Hdf5, ContiguousRowsAreReadWhereTheyLie) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const auto numbers = counted(12);
  const std::vector<std::int64_t> labels = {3, 1, 2};
  {
    const MadeFile file(path);
    file.add("train/images", H5T_IEEE_F32LE, {3, 2, 2}, numbers.data());
    file.add("train/labels", H5T_STD_I64LE, {3}, labels.data());
  }
  const auto set = open(path);
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema()[0].text(), "images: float32[2, 2]");
  EXPECT_EQ(set->schema()[1].text(), "labels: int64");
  EXPECT_EQ(all_of<float>(*set), numbers);
  EXPECT_EQ(layout_of(path), Column::Layout::Uniform);
  Sample sample;
  set->read(2, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{2});
  EXPECT_TRUE(has(set->name(1), "at byte")) << set->name(1);
}

TEST(Hdf5, ChunksOfTheIndexHoldTheirRows) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const auto numbers = counted(11 * 5);
  MadeFile(path).add("x", H5T_IEEE_F32LE, {11, 5}, numbers.data(), in_chunks({4, 5}, {}).get());
  const auto set = open(path);
  EXPECT_TRUE(has(set->name(5), "at byte")) << set->name(5);
  const Index kept = index_of(path, {});
  EXPECT_EQ(kept.columns.at(0).extent(5).offset, kept.columns[0].extent(4).offset + 5 * sizeof(float));
  for (const std::uint64_t row_bytes : {std::uint64_t{21}, UINT64_MAX}) {
    Index beyond = kept;
    beyond.columns[0].row_bytes = row_bytes;
    EXPECT_TRUE(has(message_of([&] { Index::parse(beyond.serialize()); }), "cannot be read")) << row_bytes;
  }
}

struct Packed {
  std::string name;
  std::function<void(hid_t)> filters;
};
void PrintTo(const Packed& packed, std::ostream* out) { *out << packed.name; }
class Chunks : public testing::TestWithParam<Packed> {};

TEST_P(Chunks, AreUnpacked) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const auto numbers = counted(11 * 5);
  MadeFile(path).add("x", H5T_IEEE_F32LE, {11, 5}, numbers.data(), in_chunks({4, 5}, GetParam().filters).get());
  const auto set = open(path);
  EXPECT_EQ(all_of<float>(*set), numbers);
  EXPECT_EQ(layout_of(path), GetParam().filters ? Column::Layout::Blocks : Column::Layout::Chunks);
  EXPECT_EQ(all_of<float>(*open(path)), numbers) << "by the index that was kept";
}

INSTANTIATE_TEST_SUITE_P(Filters, Chunks,
                         testing::Values(Packed{"None", {}}, Packed{"Deflate", [](hid_t id) { H5Pset_deflate(id, 4); }},
                                         Packed{"Shuffle", [](hid_t id) { H5Pset_shuffle(id); }},
                                         Packed{"Fletcher32", [](hid_t id) { H5Pset_fletcher32(id); }},
                                         Packed{"All",
                                                [](hid_t id) {
                                                  H5Pset_shuffle(id);
                                                  H5Pset_deflate(id, 9);
                                                  H5Pset_fletcher32(id);
                                                }},
                                         Packed{"ChecksumFirst",
                                                [](hid_t id) {
                                                  H5Pset_fletcher32(id);
                                                  H5Pset_deflate(id, 1);
                                                }},
                                         Packed{"ScaleOffset",
                                                [](hid_t id) { H5Pset_scaleoffset(id, H5Z_SO_FLOAT_DSCALE, 4); }},
                                         Packed{"EdgesAsTheyAre",
                                                [](hid_t id) {
                                                  H5Pset_deflate(id, 1);
                                                  H5Pset_chunk_opts(id, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
                                                }}),
                         [](const auto& packed) { return packed.param.name; });

TEST(Hdf5, ChunksThatCutRowsAreJoined) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const auto numbers = counted(7 * 6 * 5);
  for (const auto& chunk : {Dims{2, 4, 5}, Dims{3, 6, 2}, Dims{7, 1, 1}, Dims{1, 4, 4}}) {
    MadeFile(path).add("x", H5T_IEEE_F32LE, {7, 6, 5}, numbers.data(),
                       in_chunks(chunk, [](hid_t id) { H5Pset_deflate(id, 3); }).get());
    EXPECT_EQ(all_of<float>(*open(path)), numbers);
  }
}

TEST(Hdf5, ReadsBehindAUserBlock) {
  const Folder folder;
  const PropertiesId creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_userblock(creation.get(), 512);
  const auto numbers = counted(10);
  for (const auto& [name, properties] :
       {std::pair{"contiguous.h5", PropertiesId(H5Pcopy(H5P_DATASET_CREATE_DEFAULT))},
        std::pair{"chunked.h5", in_chunks({3, 2}, [](hid_t id) { H5Pset_deflate(id, 1); })}}) {
    MadeFile(folder / name, creation.get()).add("x", H5T_IEEE_F32LE, {5, 2}, numbers.data(), properties.get());
    EXPECT_EQ(all_of<float>(*open(folder / name)), numbers) << name;
  }
}

TEST(Hdf5, ManyChunksAreLookedUpWhenTheyAreRead) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  std::vector<std::int32_t> numbers(20'000);
  std::iota(numbers.begin(), numbers.end(), 7);
  MadeFile(path).add("x", H5T_STD_I32LE, {20'000}, numbers.data(),
                     in_chunks({1}, [](hid_t id) { H5Pset_deflate(id, 1); }).get());
  const auto set = open(path);
  Sample sample;
  for (const std::int64_t i : {0, 9'999, 19'999}) {
    set->read(i, sample);
    EXPECT_EQ(numbers_of<std::int32_t>(sample.values[0]), std::vector<std::int32_t>{static_cast<std::int32_t>(i + 7)});
  }
}

TEST(Hdf5, ChunksThatWereNeverWrittenHaveTheFillValue) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const float fill = -1.5F;
  {
    const MadeFile file(path);
    file.add("x", H5T_IEEE_F32LE, {8}, nullptr,
             in_chunks({2}, [&](hid_t id) { H5Pset_fill_value(id, H5T_NATIVE_FLOAT, &fill); }).get());
    const DatasetId id(H5Dopen2(file.id(), "x", H5P_DEFAULT));
    const SpaceId there(H5Dget_space(id.get()));
    const hsize_t start = 2, count = 2;
    H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
    const SpaceId here(H5Screate_simple(1, &count, nullptr));
    const auto numbers = counted(2);
    H5Dwrite(id.get(), H5T_NATIVE_FLOAT, here.get(), there.get(), H5P_DEFAULT, numbers.data());
  }
  EXPECT_EQ(all_of<float>(*open(path)), (std::vector<float>{-1.5, -1.5, 0.25, 1.25, -1.5, -1.5, -1.5, -1.5}));
}

TEST(Hdf5, ReadsTextsOfAllKinds) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const std::string padded("abc\0\0de\0\0\0", 10), spaced = "abc  de   ";
  const std::vector<const char*> variable = {"gr\xC3\xBC\xC3\x9F", ""};
  {
    const MadeFile file(path);
    const auto of_five = [](H5T_str_t pad) {
      TypeId type(H5Tcopy(H5T_C_S1));
      H5Tset_size(type.get(), 5);
      H5Tset_strpad(type.get(), pad);
      return type;
    };
    file.add("a", of_five(H5T_STR_NULLPAD).get(), {2}, padded.data());
    file.add("b", of_five(H5T_STR_SPACEPAD).get(), {2}, spaced.data());
    file.add("c", text_type().get(), {2}, variable.data());
  }
  const auto set = open(path);
  for (std::size_t field = 0; field < 3; ++field) EXPECT_EQ(set->schema()[field].encoding, Encoding::Text);
  EXPECT_EQ(text_of(*set, 0, 0), "abc");
  EXPECT_EQ(text_of(*set, 1, 0), "de");
  EXPECT_EQ(text_of(*set, 0, 1), "abc");
  EXPECT_EQ(text_of(*set, 1, 1), "de");
  EXPECT_EQ(text_of(*set, 0, 2), variable[0]);
  EXPECT_EQ(text_of(*set, 1, 2), "");
}

TEST(Hdf5, ReadsSequencesOfDifferentLength) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  std::string jpeg = "\xFF\xD8\xFF pixels";
  std::vector<std::int32_t> numbers = {1, 2, 3};
  const std::vector<hvl_t> images = {{jpeg.size(), jpeg.data()}, {0, nullptr}};
  const std::vector<hvl_t> tokens = {{2, numbers.data()}, {3, numbers.data()}};
  {
    const MadeFile file(path);
    file.add("image", TypeId(H5Tvlen_create(H5T_STD_U8LE)).get(), {2}, images.data());
    file.add("tokens", TypeId(H5Tvlen_create(H5T_STD_I32LE)).get(), {2}, tokens.data());
  }
  const auto set = open(path);
  EXPECT_EQ(set->schema()[0].encoding, Encoding::Jpeg);
  EXPECT_EQ(set->schema()[1].text(), "tokens: int32[?]");
  EXPECT_EQ(text_of(*set, 0), jpeg);
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(sample.values[1].shape, (Shape{3}));
  EXPECT_EQ(numbers_of<std::int32_t>(sample.values[1]), numbers);
}

TEST(Hdf5, EnumsAreTheirNumbers) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const TypeId colour(H5Tenum_create(H5T_STD_U8LE));
  for (const auto number : {std::uint8_t{1}, std::uint8_t{2}})
    H5Tenum_insert(colour.get(), number == 1 ? "red" : "blue", &number);
  const std::vector<std::uint8_t> numbers = {2, 1};
  MadeFile(path).add("x", colour.get(), {2}, numbers.data());
  const auto set = open(path);
  EXPECT_EQ(set->schema()[0].text(), "x: uint8");
  EXPECT_EQ(all_of<std::uint8_t>(*set), numbers);
}

TEST(Hdf5, OneChoosesAmongArraysOfDifferentLength) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const auto numbers = counted(5);
  {
    const MadeFile file(path);
    file.add("test/x", H5T_IEEE_F32LE, {2}, numbers.data());
    file.add("train/x", H5T_IEEE_F32LE, {5}, numbers.data());
    file.add("version", H5T_IEEE_F32LE, {}, numbers.data());
  }
  EXPECT_TRUE(has(message_of([&] { open(path); }), "'test/x' 2, 'train/x' 5; choose"));
  OpenOptions options;
  options.fields = {"train/x"};
  const auto set = open(path, options);
  EXPECT_EQ(set->size(), 5);
  EXPECT_EQ(set->schema()[0].name, "x");
  options.fields = {"train/y"};
  EXPECT_TRUE(has(message_of([&] { open(path, options); }, Fault::Usage), "did you mean 'train/x'"));
  options.fields = {"version"};
  EXPECT_TRUE(has(message_of([&] { open(path, options); }, Fault::Usage), "a single value"));
  EXPECT_EQ(open(path + ":/train/x")->size(), 5);
  EXPECT_EQ(open(folder / "*.h5:/test/x")->size(), 2);
  EXPECT_TRUE(has(message_of([&] { open(path + ":/train/y"); }, Fault::Usage), "did you mean 'train/x'"));
  EXPECT_TRUE(has(message_of([&] { open(folder / "y.h5:/x"); }, Fault::Usage), "there is no file"));
}

TEST(Hdf5, NamesWhatCannotBeAField) {
  const Folder folder;
  const auto numbers = counted(8);
  const auto message = [&](hid_t type, const Dims& dims, hid_t properties = H5P_DEFAULT, bool written = true) {
    MadeFile(folder / "x.h5").add("x", type, dims, written ? numbers.data() : nullptr, properties);
    return message_of([&] { open(folder / "x.h5"); });
  };
  EXPECT_TRUE(has(message(H5T_IEEE_F32BE, {2}), "'x' is big-endian"));
  const TypeId compound(H5Tcreate(H5T_COMPOUND, 8));
  H5Tinsert(compound.get(), "a", 0, H5T_IEEE_F32LE);
  EXPECT_TRUE(has(message(compound.get(), {2}), "several values"));
  EXPECT_TRUE(has(message(H5T_IEEE_F32LE, {0}), "holds no samples"));
  EXPECT_TRUE(has(message(H5T_IEEE_F32LE, {5}, H5P_DEFAULT, false), "'x' was never written"));
  EXPECT_TRUE(has(message(H5T_IEEE_F32LE, {2, 0}), "without any values"));
  EXPECT_TRUE(has(message(H5T_IEEE_F32LE, {}), "no arrays"));
  const PropertiesId compact(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_layout(compact.get(), H5D_COMPACT);
  EXPECT_TRUE(has(message(H5T_IEEE_F32LE, {5}, compact.get()), "h5repack -l CONTI"));
  // A few chunks of a shape that no memory holds.
  const PropertiesId chunks = in_chunks({1 << 20, 1}, [](hid_t id) { H5Pset_deflate(id, 1); });
  {
    const MadeFile file(folder / "huge.h5");
    file.add("x", H5T_STD_U8LE, {hsize_t{1} << 50, 1}, nullptr, chunks.get());
    const DatasetId id(H5Dopen2(file.id(), "x", H5P_DEFAULT));
    const Dims first = {0, 0};
    const char chunk[4] = {};
    checked(H5Dwrite_chunk(id.get(), H5P_DEFAULT, 0, first.data(), sizeof chunk, chunk), "chunk");
  }
  EXPECT_TRUE(has(message_of([&] { open(folder / "huge.h5"); }), "cannot have 1125899906842624 rows"));
}

// ---- what is written ------------------------------------------------------------------------------

Schema all_fields() {
  Schema schema = fields_of_all_types({2, 3});
  schema.push_back({"label", Encoding::Values, c10::ScalarType::Long, {}, {"cat", "dog"}});
  schema.push_back({"of/group", Encoding::Values, c10::ScalarType::Float, {1}});
  schema.push_back({"text", Encoding::Text});
  schema.push_back({"raw", Encoding::Raw});
  schema.push_back({"jpg", Encoding::Jpeg});
  schema.push_back({"png", Encoding::Png});
  return schema;
}

/// Bytes of sample `i` for `field`, ones and zeros so that they are also truth values.
std::string bytes_for(const Field& field, std::int64_t i) {
  switch (field.encoding) {
    case Encoding::Text: return std::string(static_cast<std::size_t>(i % 5), 't') + "\xC3\xA4";
    case Encoding::Raw: return std::string(static_cast<std::size_t>(i % 7), '\0') + "raw";
    case Encoding::Jpeg: return "\xFF\xD8\xFF" + std::string(100, static_cast<char>(i));
    case Encoding::Png: return "\x89PNG\r\n\x1A\n" + std::to_string(i);
    default: break;
  }
  std::string bytes(static_cast<std::size_t>(field.bytes()), '\0');
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    bytes[place] = static_cast<char>((static_cast<std::size_t>(i) + place) % 3 == 0);
  }
  return bytes;
}

void write_samples(Writer& writer, const Schema& schema, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::string> bytes;
    for (const auto& field : schema) bytes.push_back(bytes_for(field, i));
    Sample sample;
    sample.clear(schema.size());
    for (std::size_t place = 0; place < schema.size(); ++place) sample.values[place].bytes = as_bytes(bytes[place]);
    writer.add(std::to_string(i), sample);
  }
}

TEST(Hdf5, IsReadAsItWasWritten) {
  const Folder folder;
  const Schema schema = all_fields();
  for (const std::string compression : {"", "deflate"}) {
    const std::string path = folder / ("x" + compression + ".h5");
    const std::int64_t count = 1500;  // more than a chunk of text
    const auto writer = format_named("hdf5").write(path, schema, {compression, -1});
    write_samples(*writer, schema, count);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer->finish();
    const auto set = open(path);
    ASSERT_EQ(set->size(), count);
    Sample sample;
    for (std::int64_t i = 0; i < count; ++i) {
      set->read(i, sample);
      for (const auto& field : schema) {
        const std::size_t place = place_of(set->schema(), field.name);
        ASSERT_EQ(set->schema()[place], field);
        ASSERT_EQ(as_text(sample.values[place].bytes), bytes_for(field, i)) << field.name << " of " << i;
      }
    }
    write_all(*set, folder / "again.h5", "hdf5");
    expect_same(*open(folder / "again.h5"), *set);
  }
}

TEST(Hdf5, RefusesToWriteWhatItCannotHold) {
  const Folder folder;
  const std::string name = "hdf5";  // gcc 13 takes the reference for one to a temporary
  const Format& format = format_named(name);
  const Schema ragged = {{"x", Encoding::Values, c10::ScalarType::Float, {-1}}};
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.h5", ragged, {}); }, Fault::Usage), "float32[?]"));
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.h5", {}, {"lzma", 1}); }, Fault::Usage), "'lzma'"));
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.h5", {}, {"deflate", 10}); }, Fault::Usage), "0 to 9"));
  {
    const Schema text = {{"t", Encoding::Text}};
    const auto writer = format.write(folder / "x.h5", text, {});
    Sample sample;
    sample.clear(1);
    sample.values[0].missing = true;
    EXPECT_TRUE(has(message_of([&] { writer->add("0", sample); }), "'t' is missing"));
    const std::string with_zero("a\0b", 3);
    sample.values[0] = value_of(with_zero);
    EXPECT_TRUE(has(message_of([&] { writer->add("0", sample); }), "zero byte"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "")) << "what was not finished is left behind";
}

// ---- torn files -----------------------------------------------------------------------------------

std::string small_file(const Folder& folder) {
  const std::string path = folder / "good.h5";
  const Schema schema = {{"x", Encoding::Values, c10::ScalarType::Float, {3}}, {"t", Encoding::Text}};
  const auto writer = format_named("hdf5").write(path, schema, {"deflate", 6});
  write_samples(*writer, schema, 20);
  writer->finish();
  return contents(path);
}

/// In the layout that most programs write, whose tables have no checksums.
std::string small_old_file(const Folder& folder) {
  const std::string path = folder / "good.h5";
  const auto numbers = counted(12);
  const std::vector<const char*> texts = {"a", "bc", "", "def"};
  {
    const MadeFile file(path);
    file.add("x", H5T_IEEE_F32LE, {4, 3}, numbers.data(),
             in_chunks({3, 3}, [](hid_t id) { H5Pset_deflate(id, 6); }).get());
    file.add("y", H5T_IEEE_F32LE, {4, 3}, numbers.data());
    file.add("t", text_type().get(), {4}, texts.data());
  }
  return contents(path);
}

std::size_t refused_of_changed(const Folder& folder, const std::string& good) {
  EXPECT_TRUE(reads_all(folder.write("x.h5", good)));
  std::size_t refused = 0;
  for (std::size_t place = 0; place < good.size(); place += 41) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0xFF);
    refused += reads_all(folder.write("x.h5", bad)) ? 0 : 1;
  }
  return refused;
}

TEST(Hdf5, CutFilesAreErrors) {
  const Folder folder;
  const std::string good = small_file(folder);
  ASSERT_TRUE(reads_all(folder.write("x.h5", good)));
  for (std::size_t size = 0; size < good.size(); size += 97) {
    EXPECT_FALSE(reads_all(folder.write("x.h5", good.substr(0, size)))) << size << " of " << good.size() << " bytes";
  }
  EXPECT_TRUE(has(message_of([&] { open(folder.write("y.h5", "no such thing")); }), "is no HDF5 file"));
  EXPECT_TRUE(has(message_of([&] { open(folder.write("y.h5", good.substr(0, 900))); }), "truncated"));
}

TEST(Hdf5, ChangedBytesAreErrorsOrOtherValues) {
  const Folder folder;
  EXPECT_GT(refused_of_changed(folder, small_file(folder)), 10U);
  EXPECT_GT(refused_of_changed(folder, small_old_file(folder)), 5U);
}

TEST(Hdf5, CorruptChunksAreNamed) {
  const Folder folder;
  const std::string path = folder / "x.h5";
  const std::vector<float> numbers(8 * 16, 1.25F);
  const auto damaged = [&](const std::function<void(hid_t)>& filters) {
    MadeFile(path).add("x", H5T_IEEE_F32LE, {8, 16}, numbers.data(), in_chunks({4, 16}, filters).get());
    const Extent chunk = index_of(path, {}).columns[0].extents[1];
    std::string bytes = contents(path);
    bytes[chunk.offset + chunk.length / 2] = static_cast<char>(bytes[chunk.offset + chunk.length / 2] ^ 0x55);
    folder.write("x.h5", bytes);
    return message_of([&] { open(path); });
  };
  EXPECT_TRUE(has(damaged([](hid_t id) { H5Pset_fletcher32(id); }), "its checksum is"));
  EXPECT_TRUE(has(damaged([](hid_t id) { H5Pset_fletcher32(id); }), "x.h5: sample 4"));
  EXPECT_TRUE(has(damaged([](hid_t id) { H5Pset_deflate(id, 6); }), "compressed bytes"));
}

}  // namespace
}  // namespace lockstep::data
#endif
