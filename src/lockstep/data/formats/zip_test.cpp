// Fields of samples as members of a zip archive.
#include <fmt/format.h>

#include "lockstep/data/testing.h"
#include "lockstep/data/zip_directory.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

/// Two texts, deflated, and a number, stored, by Python's zipfile into a pipe: with data descriptors.
constexpr std::string_view kStreamed =
    "504b03041400080008000000210000000000000000000000000007000000612f302e747874cb48cdc9c957c8402701504b0708e3513d"
    "8d0a00000017000000504b03041400080000000000210000000000000000000000000007000000612f302e636c7333504b07089b8ed2"
    "6d0100000001000000504b03041400080008000000210000000000000000000000000007000000612f312e7478742bcf2fca49512847"
    "2701504b0708d29476740a00000017000000504b0102140314000800080000002100e3513d8d0a000000170000000700000000000000"
    "00000000800100000000612f302e747874504b01021403140008000000000021009b8ed26d0100000001000000070000000000000000"
    "00000080013f000000612f302e636c73504b0102140314000800080000002100d29476740a0000001700000007000000000000000000"
    "0000800175000000612f312e747874504b050600000000030003009f000000b40000000000";

Schema schema() {
  return {{"image", Encoding::Jpeg},
          {"caption", Encoding::Text},
          {"label", Encoding::Values, ScalarType::Long},
          {"boxes", Encoding::Values, ScalarType::Float, {-1, 2}}};
}

/// The first caption becomes shorter when deflated and the second one does not; the third sample has none.
void write_samples(const std::string& path, const WriteOptions& options) {
  const std::vector<std::string> images = {"JPEG 0", "JPEG 1", "JPEG 2"};
  const std::vector<std::string> captions = {std::string(1000, 'a'), "b"};
  const std::vector<std::int64_t> labels = {10, -20, 30};
  const std::vector<float> boxes(200, 0.5F);
  const auto writer = format_named("zip").write(path, schema(), options);
  for (std::size_t i = 0; i < 3; ++i) {
    Sample sample;
    sample.clear(4);
    sample.values[0] = value_of(images[i]);
    sample.values[1].missing = i == 2;
    if (i < 2) sample.values[1] = value_of(captions[i]);
    sample.values[2] = {std::as_bytes(std::span(&labels[i], 1)), {}, false};
    const auto rows = static_cast<std::int64_t>(i + 1) * 20;
    sample.values[3] = {std::as_bytes(std::span(boxes)).first(static_cast<std::size_t>(rows) * 8), {rows, 2}, false};
    writer->add(fmt::format("dir/{}", i), sample);
  }
  writer->finish();
}

void expect_samples(const Dataset& set) {
  ASSERT_EQ(set.size(), 3);
  ASSERT_EQ(set.schema(), schema());
  Sample sample;
  set.read(0, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "JPEG 0");
  EXPECT_EQ(as_text(sample.values[1].bytes), std::string(1000, 'a'));
  EXPECT_EQ(sample.values[3].shape, (Shape{20, 2}));
  set.read(1, sample);
  EXPECT_EQ(as_text(sample.values[1].bytes), "b");
  EXPECT_FALSE(sample.values[1].missing);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[2]), std::vector<std::int64_t>{-20});
  set.read(2, sample);
  EXPECT_TRUE(sample.values[1].missing);
  EXPECT_EQ(numbers_of<float>(sample.values[3]), std::vector<float>(120, 0.5F));
  EXPECT_EQ(set.key(2), "dir/2");
}

TEST(Zip, KeepsSamplesStoredAndDeflated) {
  const Folder folder;
  write_samples(folder / "stored.zip", {});
  expect_samples(*open(folder / "stored.zip"));
  write_samples(folder / "deflated.zip", {"deflate", 9});
  expect_samples(*open(folder / "deflated.zip"));
  expect_samples(*open(folder / "deflated.zip"));  // by the index that was kept
  EXPECT_LT(contents(folder / "deflated.zip").size(), contents(folder / "stored.zip").size());
}

TEST(Zip, ReadsWhatWasStreamed) {
  const Folder folder;
  const auto set = open(folder.write("x.zip", from_hex(kStreamed)));
  ASSERT_EQ(set->size(), 2);
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "hello hello hello hello");
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{3});
  set->read(1, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "world world world world");
  EXPECT_TRUE(sample.values[1].missing);
}

TEST(Zip, IsRecognisedByItsBytes) {
  const Folder folder;
  EXPECT_EQ(open(folder.write("archive", from_hex(kStreamed)))->size(), 2);
}

TEST(Zip, WrongBytesNameTheMember) {
  const Folder folder;
  write_samples(folder / "stored.zip", {});
  std::string stored = contents(folder / "stored.zip");
  stored[stored.find("JPEG 1") + 5] = 'x';
  const std::string at_scan = message_of([&] { open(folder.write("bad.zip", stored)); });
  EXPECT_TRUE(has(at_scan, "crc32")) << at_scan;
  EXPECT_TRUE(has(at_scan, "reading 'image' of 'dir/1'")) << at_scan;

  std::string packed = from_hex(kStreamed);
  packed[packed.find("PK\x01\x02") + 16] ^= 1;  // the crc32 in the directory
  const auto set = open(folder.write("bad2.zip", packed));
  Sample sample;
  const std::string at_read = message_of([&] { set->read(0, sample); });
  EXPECT_TRUE(has(at_read, "the zip member at byte 0 is corrupt")) << at_read;
  EXPECT_TRUE(has(at_read, "sample 0 'a/0'")) << at_read;
  set->read(1, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "world world world world");
}

TEST(Zip, RefusesOtherCompressions) {
  const Folder folder;
  EXPECT_TRUE(has(message_of([&] { format_named("zip").write(folder / "x.zip", schema(), {"lzma"}); }, Fault::Usage),
                  "no compression 'lzma'"));
}

}  // namespace
}  // namespace lockstep::data
