// npy and IDX: arrays in files of their own.
#include <chrono>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/data/index_cache.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

std::string floats_npy(std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns));
  std::iota(numbers.begin(), numbers.end(), 0.5F);
  std::string bytes = npy_header(c10::ScalarType::Float, {rows, columns});
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  return bytes;
}

std::string idx(int type, const std::vector<std::uint32_t>& shape, const std::string& data) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const auto size : shape) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xFF);
  }
  return bytes + data;
}

TEST(Npy, RowsAreSamples) {
  const Folder folder;
  const auto set = open(folder.write("x.npy", floats_npy(5, 3)));
  ASSERT_EQ(set->size(), 5);
  EXPECT_EQ(set->schema(), (Schema{{"values", Encoding::Values, c10::ScalarType::Float, {3}}}));
  Sample sample;
  set->read(4, sample);
  EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{12.5, 13.5, 14.5}));
  EXPECT_TRUE(has(set->name(4), "x.npy: sample 4 at byte 176")) << set->name(4);
}

TEST(Npy, IsWrittenAsItIsRead) {
  const Folder folder;
  const auto set = open(folder.write("x.npy", floats_npy(7, 2)));
  write_all(*set, folder / "y.npy", "npy");
  expect_same(*open(folder / "y.npy"), *set);
}

TEST(Npy, IsLookedAtOnlyWhereTheIndexIsKept) {
  const Folder folder;
  const auto file = folder.write("x.npy", floats_npy(7, 2));
  OpenOptions options;
  options.checksums = true;
  Index index = index_of(file, options);
  EXPECT_EQ(index.files.at(0).fingerprint, 0U) << "opening an array needs its head alone";
  take_checksums(file, index);
  const auto touch = [&] {
    std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::hours(1));
  };
  touch();
  EXPECT_FALSE(index_of(file, options).checksums.empty()) << "the same bytes at another time";
  std::string other = floats_npy(7, 2);
  other.back() ^= 1;
  folder.write("x.npy", other);
  touch();
  EXPECT_TRUE(index_of(file, options).checksums.empty()) << "other bytes";
}

TEST(Npy, NamesWhatIsWrong) {
  const Folder folder;
  const std::string good = floats_npy(5, 3);
  const auto message = [&](const std::string& bytes) {
    return message_of([&] { open(folder.write("bad.npy", bytes)); });
  };
  EXPECT_TRUE(has(message(good.substr(0, good.size() - 1)),
                  "'values' is cut short: 59 bytes from byte 128 on hold 4 of its 5 rows"));
  EXPECT_TRUE(has(message("NUMPY, not"), "does not begin with"));
  EXPECT_TRUE(has(message(good.substr(0, 40)), "cut short"));
  std::string other = good;
  other.replace(other.find("<f4"), 3, ">f4");
  EXPECT_TRUE(has(message(other), "big-endian"));
  other = good;
  other.replace(other.find("<f4"), 3, "<c8");
  EXPECT_TRUE(has(message(other), "'<c8'"));
  other = good;
  other.replace(other.find("False"), 5, "True ");
  EXPECT_TRUE(has(message(other), "Fortran"));
  EXPECT_TRUE(has(message(npy_header(c10::ScalarType::Float, {0, 3})), "holds no samples"));
  EXPECT_TRUE(has(message_of([&] { open(folder / "absent.npy"); }, Fault::Usage), "absent.npy"));
}

TEST(Idx, BringsTheLabelsAlong) {
  const Folder folder;
  folder.write("train-labels-idx1-ubyte", idx(8, {3}, "\x07\x02\x01"));
  const auto set = open(folder.write("train-images-idx3-ubyte", idx(8, {3, 1, 2}, "abcdef")));
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema()[0].text(), "image: uint8[1, 2]");
  EXPECT_EQ(set->schema()[1].text(), "label: uint8");
  Sample sample;
  set->read(2, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "ef");
  EXPECT_EQ(numbers_of<std::uint8_t>(sample.values[1]), std::vector<std::uint8_t>{1});
}

TEST(Idx, TurnsNumbersToOurOrder) {
  const Folder folder;
  const auto set = open(folder.write("x.idx", idx(0x0C, {2}, std::string("\0\0\1\2\0\0\0\5", 8))));
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(numbers_of<std::int32_t>(sample.values[0]), std::vector<std::int32_t>{258});
  write_all(*set, folder / "y.idx", "idx");
  EXPECT_EQ(contents(folder / "y.idx"), contents(folder / "x.idx"));
}

TEST(Idx, NamesWhatIsWrong) {
  const Folder folder;
  const auto message = [&](const std::string& bytes) {
    return message_of([&] { open(folder.write("bad.idx", bytes)); });
  };
  EXPECT_TRUE(has(message("PNG, not"), "two zero bytes"));
  EXPECT_TRUE(has(message(idx(7, {3}, "abc")), "0x07"));
  EXPECT_TRUE(has(message(idx(8, {4, 2}, "abcdefg")), "3 of its 4 rows"));
  EXPECT_TRUE(has(message(idx(8, {4, 2}, "").substr(0, 9)), "cut short"));
}

}  // namespace
}  // namespace lockstep::data
