#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/data/decompress.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/zip_directory.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

/// numpy.savez_compressed(x=arange(6, float32).reshape(3, 2), y=[5, -6, 7])
constexpr std::string_view kCompressed =
    "504b03042d000000080000002100ccca9cbdffffffffffffffff05001400782e6e707901001000980000000000000055000000000000"
    "009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416"
    "a402f91ac63a0a469a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b03042d00000008000000210056748e09ffffffff"
    "ffffffff05001400792e6e70790100100098000000000000004e000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a0"
    "6e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a9a3a0ab50a14002e560608f8f51f02d8"
    "a17c00504b01022d032d000000080000002100ccca9cbd5500000098000000050000000000000000000000800100000000782e6e7079"
    "504b01022d032d00000008000000210056748e094e0000009800000005000000000000000000000080018c000000792e6e7079504b05"
    "06000000000200020066000000110100000000";

/// A member as numpy.savez has it.
void put(ZipFile& archive, const std::string& name, const std::string& bytes) {
  archive.begin({name, 0, bytes.size(), {0, bytes.size(), crc32_of(as_bytes(bytes)), kStored}, true}, 1);
  archive.write(bytes);
}

template <class Number>
std::string npy_of(ScalarType type, const std::vector<std::int64_t>& shape, const std::vector<Number>& numbers) {
  return npy_header(type, shape).append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

TEST(Npz, StoredArraysLieWhereTheyAre) {
  const Folder folder;
  ZipFile archive(folder / "x.npz");
  put(archive, "x.npy", npy_of<float>(ScalarType::Float, {3, 2}, {0, 1, 2, 3, 4, 5}));
  put(archive, "notes.txt", "no array");
  put(archive, "y.npy", npy_of<std::int64_t>(ScalarType::Long, {3}, {5, -6, 7}));
  archive.finish();
  const auto set = open(folder / "x.npz");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema()[0].text(), "x: float32[2]");
  EXPECT_EQ(set->schema()[1].text(), "y: int64");
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{-6});
  EXPECT_FALSE(std::filesystem::exists(folder / "x.npz.lsx")) << "opening reads heads only";
}

TEST(Npz, ReadsWhatNumPyCompressed) {
  const Folder folder;
  const auto set = open(folder.write("x.npz", from_hex(kCompressed)));
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema()[0].text(), "x: float32[2]");
  Sample sample;
  for (const int i : {2, 0, 1}) {
    set->read(i, sample);
    const auto first = static_cast<float>(2 * i);
    EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{first, first + 1}));
    EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1])[0],
              (std::vector<std::int64_t>{5, -6, 7})[static_cast<std::size_t>(i)]);
  }
}

class NpzWritten : public testing::TestWithParam<const char*> {
 protected:
  /// More rows than are held at a time.
  void write(const std::string& path, std::int64_t rows) const {
    const Schema schema = {{"x", Encoding::Values, ScalarType::Float, {100}},
                           {"flag", Encoding::Values, ScalarType::Bool},
                           {"label", Encoding::Values, ScalarType::Long}};
    const auto writer = format_named("npz").write(path, schema, {GetParam()});
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<float> numbers(100);
      std::iota(numbers.begin(), numbers.end(), static_cast<float>(row));
      const std::vector<std::uint8_t> flag = {static_cast<std::uint8_t>(row % 2)};
      const std::vector<std::int64_t> label = {-row};
      Sample sample;
      sample.clear(3);
      sample.values = {value_of(numbers, {100}), value_of(flag, {}), value_of(label, {})};
      writer->add("", sample);
    }
    writer->finish();
  }
};

TEST_P(NpzWritten, IsReadBack) {
  const Folder folder;
  write(folder / "x.npz", 5000);
  const auto set = open(folder / "x.npz");
  ASSERT_EQ(set->size(), 5000);
  Sample sample;
  for (const std::int64_t row : {0, 2621, 4999}) {
    set->read(row, sample);
    EXPECT_EQ(numbers_of<float>(sample.values[0])[99], static_cast<float>(row + 99));
    EXPECT_EQ(numbers_of<std::uint8_t>(sample.values[1])[0], row % 2);
    EXPECT_EQ(numbers_of<std::int64_t>(sample.values[2])[0], -row);
  }
  write_all(*set, folder / "y.npz", "npz", {GetParam()});
  EXPECT_EQ(contents(folder / "y.npz"), contents(folder / "x.npz"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / ""))
    files += entry.path().extension() == ".npz";
  EXPECT_EQ(files, 2U);
}

TEST_P(NpzWritten, RowsAreAligned) {
  const Folder folder;
  write(folder / "x.npz", 3);
  const std::string bytes = contents(folder / "x.npz");
  ZipReader reader(as_bytes(bytes));
  int members = 0;
  while (const auto member = reader.next()) {
    ++members;
    EXPECT_EQ(member->data_offset % 64, 0U) << member->name;
  }
  EXPECT_EQ(members, 3);
}

TEST_P(NpzWritten, IsReadByNumPy) {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "python3 has no numpy";
  const Folder folder;
  write(folder / "x.npz", 3000);
  const std::string program =
      "import numpy, sys; a = numpy.load(sys.argv[1]); assert a['x'].shape == (3000, 100) and a['x'][2999, 1] == 3000; "
      "assert a['flag'].dtype == bool and a['flag'].sum() == 1500; assert (a['label'] == -numpy.arange(3000)).all()";
  EXPECT_EQ(std::system(fmt::format("python3 -c \"{}\" {}", program, folder / "x.npz").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Compressions, NpzWritten, testing::Values("", "deflate"),
                         [](const auto& tested) { return *tested.param == 0 ? "Stored" : "Deflated"; });

TEST(Npz, StoredArraysAreCheckedWhenChecksumsAreTaken) {
  const Folder folder;
  {
    ZipFile archive(folder / "x.npz");
    put(archive, "x.npy", npy_of<std::int64_t>(ScalarType::Long, {3}, {1, 2, 3}));
    put(archive, "y.npy", npy_of<std::int64_t>(ScalarType::Long, {3}, {4, 5, 6}));
    archive.finish();
  }
  Index good = index_of(folder / "x.npz", {});
  EXPECT_TRUE(take_checksums(folder / "x.npz", good));
  std::string bytes = contents(folder / "x.npz");
  bytes[bytes.find(std::string("\5\0\0\0\0\0\0\0", 8))] ^= 1;
  const std::string path = folder.write("flipped.npz", bytes);
  Index index = index_of(path, {});  // opening reads the heads alone
  const std::string message = message_of([&] { take_checksums(path, index); });
  EXPECT_TRUE(has(message, path) && has(message, "member 'y.npy'") && has(message, "crc32")) << message;
}

TEST(Npz, RefusesFieldsThatAreNoArrays) {
  const Folder folder;
  const auto message = [&](const Schema& schema) {
    return message_of([&] { format_named("npz").write(folder / "x.npz", schema, {}); }, Fault::Usage);
  };
  EXPECT_TRUE(
      has(message({{"text", Encoding::Values, c10::ScalarType::Int, {-1}}}), "samples of 'text' differ in size"));
  EXPECT_TRUE(has(message({{"jpg", Encoding::Jpeg}}), "an array cannot hold jpg: jpeg"));
  EXPECT_TRUE(
      has(message({{"text", Encoding::Values, c10::ScalarType::Int, {-1}}}), "samples of 'text' differ in size"));
  EXPECT_TRUE(has(message({{"jpg", Encoding::Jpeg}}), "or --transform 'decode jpg' --transform 'resize jpg size=64'"));
  const Field image = {"x", Encoding::Values, c10::ScalarType::Byte, {-1, -1, 3}};
  EXPECT_TRUE(has(message({image}), "uint8[?, ?, 3]; use tar or tfrecord, or --transform 'resize x size=64'"));
  EXPECT_FALSE(has(message({{"x", Encoding::Values, c10::ScalarType::Byte, {-1}}}), "resize"));
  EXPECT_TRUE(has(message({{"", Encoding::Values}}), "a name"));
}

TEST(Npz, NamesWhatIsWrong) {
  const Folder folder;
  const auto message = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    ZipFile archive(folder / "bad.npz");
    for (const auto& [name, bytes] : members) put(archive, name, bytes);
    archive.finish();
    return message_of([&] { open(folder / "bad.npz"); });
  };
  const std::string three = npy_of<std::int64_t>(ScalarType::Long, {3}, {1, 2, 3});
  EXPECT_TRUE(has(message({{"x.npy", "no array"}}), "while reading member 'x.npy' at byte 0"));
  EXPECT_TRUE(has(message({{"x.npy", three}, {"y.npy", npy_of<std::int64_t>(ScalarType::Long, {1}, {1})}}),
                  "'y' has 1 rows but 'x' has 3"));
  EXPECT_TRUE(has(message({{"x.npy", three.substr(0, three.size() - 1)}}), "2 of its 3 rows"));
  EXPECT_TRUE(has(message({{"x.npy", three}, {"x.npy", three}}), "two arrays called 'x'"));
  EXPECT_TRUE(has(message({{"x.npy", npy_of<std::int64_t>(ScalarType::Long, {}, {1})}}), "single number"));
  EXPECT_TRUE(has(message({{"x.txt", "text"}}), "holds no samples"));

  std::string torn = from_hex(kCompressed);
  torn[torn.find("PK\x01\x02") + 16] ^= 1;  // the crc32 in the directory
  EXPECT_TRUE(has(message_of([&] { open(folder.write("torn.npz", torn)); }), "crc32"));
  const std::string cut = from_hex(kCompressed).substr(0, 300);
  EXPECT_TRUE(has(message_of([&] { open(folder.write("cut.npz", cut)); }), "cut short"));
}

}  // namespace
}  // namespace lockstep::data
