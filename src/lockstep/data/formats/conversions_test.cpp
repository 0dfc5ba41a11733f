// Every format to and from npy and tar, where it can hold such samples: the same values
// and, of encoded ones, the same bytes.
#include <numeric>

#include <fmt/format.h>

#include "lockstep/data/image.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/pack.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kSamples = 37;

/// Samples that are functions of their number.
class Made final : public Dataset {
 public:
  Made(Schema schema, std::function<void(std::int64_t, Sample&)> make)
      : schema_(std::move(schema)), make_(std::move(make)) {}
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return kSamples; }
  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(schema_.size());
    make_(index, sample);
  }
  std::string name(std::int64_t index) const override { return fmt::format("made sample {}", index); }
  std::string key(std::int64_t index) const override { return fmt::format("{:04}", index); }

 private:
  Schema schema_;
  std::function<void(std::int64_t, Sample&)> make_;
};

Value copied(Sample& sample, std::string_view bytes, Shape shape = {}) {
  const auto memory = sample.scratch.take(bytes.size());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(memory.data()));
  return {memory, std::move(shape), false};
}

template <class Number>
Value numbers(Sample& sample, const std::vector<Number>& all, Shape shape) {
  return copied(sample, {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(Number)}, std::move(shape));
}

DatasetPtr arrays() {
  return std::make_shared<Made>(Schema{{"values", Encoding::Values, c10::ScalarType::Byte, {2, 3}}},
                                [](std::int64_t i, Sample& sample) {
                                  std::vector<std::uint8_t> all(6);
                                  std::iota(all.begin(), all.end(), static_cast<std::uint8_t>(i));
                                  sample.values[0] = numbers(sample, all, {2, 3});
                                });
}

DatasetPtr tokens() {
  return std::make_shared<Made>(Schema{{"tokens", Encoding::Values, c10::ScalarType::UInt16, {4}}},
                                [](std::int64_t i, Sample& sample) {
                                  std::vector<std::uint16_t> all(4);
                                  std::iota(all.begin(), all.end(), static_cast<std::uint16_t>(1000 * i));
                                  sample.values[0] = numbers(sample, all, {4});
                                });
}

DatasetPtr tables() {
  return std::make_shared<Made>(
      Schema{{"weight", Encoding::Values, c10::ScalarType::Double}, {"label", Encoding::Values, c10::ScalarType::Long}},
      [](std::int64_t i, Sample& sample) {
        sample.values[0] = numbers(sample, std::vector<double>{0.1 * static_cast<double>(i) - 1}, {});
        sample.values[1] = numbers(sample, std::vector<std::int64_t>{i % 3}, {});
      });
}

DatasetPtr texts() {
  return std::make_shared<Made>(Schema{{"text", Encoding::Text}}, [](std::int64_t i, Sample& sample) {
    sample.values[0] = copied(sample, fmt::format("line {}, \"quoted\"; grün", i));
  });
}

/// Class after class, as a folder of them is read.
DatasetPtr photographs() {
  return std::make_shared<Made>(Schema{{"image", Encoding::Jpeg}, {"label", Encoding::Values, c10::ScalarType::Long}},
                                [](std::int64_t i, Sample& sample) {
                                  std::vector<std::byte> pixels(8 * 8 * 3, static_cast<std::byte>(5 * i));
                                  ImageSize size;
                                  size.height = size.width = 8;
                                  size.channels = 3;
                                  sample.values[0] = copied(sample, encode_jpeg(pixels, size, 90));
                                  sample.values[1] = numbers(sample, std::vector<std::int64_t>{3 * i / kSamples}, {});
                                });
}

struct Conversion {
  const char* format;
  const char* file;
  DatasetPtr (*samples)();
  const char* common;  // npy or tar: where it comes from and goes to
  std::string compression = "";
};
void PrintTo(const Conversion& conversion, std::ostream* out) {
  *out << conversion.file << " of " << conversion.common;
}

class Conversions : public ::testing::TestWithParam<Conversion> {};

/// Every sample has a checksum, and it is right.
void expect_verified(const std::string& path, OpenOptions options) {
  options.checksums = true;
  auto index = index_of(path, options);
  if (index.checksums.empty()) take_checksums(path, index);
  const auto set = open(path, options);
  for (std::int64_t i = 0; i < set->size(); ++i) ASSERT_TRUE(set->verify(i)) << set->name(i);
}

/// A format may call its only field by a name of its own.
void expect_same_values(const Dataset& actual, const Dataset& wanted) {
  if (wanted.schema().size() > 1) return expect_same(actual, wanted);
  ASSERT_EQ(actual.schema().size(), 1U);
  Field renamed = actual.schema()[0];
  renamed.name = wanted.schema()[0].name;
  ASSERT_EQ(renamed, wanted.schema()[0]);
  ASSERT_EQ(actual.size(), wanted.size());
  Sample mine, theirs;
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    actual.read(i, mine);
    wanted.read(i, theirs);
    ASSERT_EQ(mine.values[0].shape, theirs.values[0].shape) << wanted.name(i);
    ASSERT_EQ(as_text(mine.values[0].bytes), as_text(theirs.values[0].bytes)) << wanted.name(i);
  }
}

TEST_P(Conversions, KeepEveryValue) {
  const Conversion& conversion = GetParam();
  const Folder folder;
  const auto samples = conversion.samples();
  const std::string before = folder / (std::string("before.") + conversion.common);
  pack(samples, before, {});
  const auto source = open(before);
  expect_same_values(*source, *samples);

  const std::string path = folder / conversion.file;
  PackOptions options;
  options.format = conversion.format;
  options.write.compression = conversion.compression;
  pack(source, path, options);
  OpenOptions reading;
  reading.format = conversion.format;
  reading.window = 4;
  const auto converted = open(path, reading);
  expect_same_values(*converted, *samples);
  expect_verified(path, reading);

  const std::string after = folder / (std::string("after.") + conversion.common);
  pack(converted, after, {});
  expect_same_values(*open(after), *samples);
  expect_verified(after, {});
}

INSTANTIATE_TEST_SUITE_P(
    All, Conversions,
    testing::Values(Conversion{"npy", "x.npy", arrays, "npy"}, Conversion{"npy", "x.npy", arrays, "tar"},
                    Conversion{"idx", "x.idx", arrays, "npy"}, Conversion{"idx", "x.idx", arrays, "tar"},
                    Conversion{"npz", "x.npz", arrays, "npy"}, Conversion{"npz", "x.npz", arrays, "tar", "deflate"},
                    Conversion{"npz", "x.npz", tables, "tar"}, Conversion{"tar", "x.tar", arrays, "npy"},
                    Conversion{"tar", "x.tar", photographs, "tar"}, Conversion{"zip", "x.zip", arrays, "npy"},
                    Conversion{"zip", "x.zip", photographs, "tar", "deflate"}, Conversion{"zip", "x.zip", texts, "tar"},
                    Conversion{"folder", "x", photographs, "tar"}, Conversion{"tfrecord", "x.tfrecord", arrays, "npy"},
                    Conversion{"tfrecord", "x.tfrecord", photographs, "tar"},
                    Conversion{"tfrecord", "x.tfrecord", tables, "tar"},
                    Conversion{"tfrecord", "x.tfrecord", texts, "tar"}, Conversion{"csv", "x.csv", tables, "tar"},
                    Conversion{"csv", "x.csv", texts, "tar"}, Conversion{"text", "x.txt", texts, "tar"},
                    Conversion{"tokens", "x.bin", tokens, "npy"}, Conversion{"tokens", "x.bin", tokens, "tar"}));

/// A table lacks numbers, which are NaN then ("f"), texts ("t") and truths ("b"), which are absent.
struct Lack {
  const char* file;
  const char* field;
  bool kept = true;  // else packing is refused, naming the field and the sample
};
void PrintTo(const Lack& lack, std::ostream* out) { *out << lack.field << " in " << lack.file; }

class MissingValues : public ::testing::TestWithParam<Lack> {};

TEST_P(MissingValues, AreKeptOrNamed) {
  const auto& [file, field, kept] = GetParam();
  const Folder folder;
  const auto* const text = "n,f,t,b\n1,NA,word,true\n,0.5,,false\n3,1e3,\"\",\n4,2,NA,true\n";
  const auto table = choose_fields(open(folder.write("x.csv", text)), {"n", field});
  if (kept) {
    pack(table, folder / file, {});
    pack(open(folder / file), folder / "back.csv", {});
    return expect_same(*open(folder / "back.csv"), *table);
  }
  const auto message = message_of([&] { pack(table, folder / file, {}); });
  EXPECT_TRUE(has(message, fmt::format("'{}' is missing, and ", field))) << message;
  EXPECT_TRUE(has(message, "x.csv: sample ")) << message;
  EXPECT_FALSE(std::filesystem::exists(folder / file));
}

INSTANTIATE_TEST_SUITE_P(All, MissingValues,
                         testing::Values(Lack{"x.tar", "f"}, Lack{"x.tar", "t"}, Lack{"x.tar", "b"}, Lack{"x.zip", "f"},
                                         Lack{"x.zip", "t"}, Lack{"x.zip", "b"}, Lack{"x.tfrecord", "f"},
                                         Lack{"x.tfrecord", "t"}, Lack{"x.tfrecord", "b"}, Lack{"y.csv", "f"},
                                         Lack{"y.csv", "t"}, Lack{"y.csv", "b"}, Lack{"x.npz", "f"},
                                         Lack{"x.npz", "b", false}));

#if LOCKSTEP_HAS_HDF5
INSTANTIATE_TEST_SUITE_P(Hdf5, Conversions,
                         testing::Values(Conversion{"hdf5", "x.h5", arrays, "npy"},
                                         Conversion{"hdf5", "x.h5", arrays, "tar", "deflate"},
                                         Conversion{"hdf5", "x.h5", tables, "tar"},
                                         Conversion{"hdf5", "x.h5", texts, "tar"},
                                         Conversion{"hdf5", "x.h5", photographs, "tar"}));
INSTANTIATE_TEST_SUITE_P(Hdf5, MissingValues,
                         testing::Values(Lack{"x.h5", "f"}, Lack{"x.h5", "t", false}, Lack{"x.h5", "b", false}));
#endif
#if LOCKSTEP_HAS_LMDB
INSTANTIATE_TEST_SUITE_P(Lmdb, Conversions,
                         testing::Values(Conversion{"lmdb", "x.lmdb", arrays, "npy"},
                                         Conversion{"lmdb", "x.lmdb", tables, "tar"},
                                         Conversion{"lmdb", "x.lmdb", texts, "tar"},
                                         Conversion{"lmdb", "x.lmdb", photographs, "tar"}));
INSTANTIATE_TEST_SUITE_P(Lmdb, MissingValues,
                         testing::Values(Lack{"x.lmdb", "f"}, Lack{"x.lmdb", "t"}, Lack{"x.lmdb", "b"}));
#endif
#if LOCKSTEP_HAS_ARROW
INSTANTIATE_TEST_SUITE_P(Parquet, Conversions,
                         testing::Values(Conversion{"parquet", "x.parquet", tables, "tar"},
                                         Conversion{"parquet", "x.parquet", texts, "tar"}));
INSTANTIATE_TEST_SUITE_P(Parquet, MissingValues,
                         testing::Values(Lack{"x.parquet", "f"}, Lack{"x.parquet", "t"},
                                         Lack{"x.parquet", "b", false}));
#endif

}  // namespace
}  // namespace lockstep::data
