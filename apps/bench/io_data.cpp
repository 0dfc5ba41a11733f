#include "bench/io_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/random.h"
#include "lockstep/data/format.h"
#include "lockstep/data/image.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/open.h"
#include "lockstep/data/pack.h"
#include "progress.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using data::Encoding;

/// Photographs of nothing: soft waves and a little grain, about as compressible as real ones.
class Photographs final : public data::Dataset {
 public:
  explicit Photographs(std::int64_t count) : count_(count) {}
  const data::Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return count_; }
  std::string name(std::int64_t index) const override { return fmt::format("photograph {}", index); }
  std::string key(std::int64_t index) const override { return fmt::format("{:06}", index); }

  void read(std::int64_t index, data::Sample& sample) const override {
    constexpr int kSize = IoData::kImageSize;
    sample.clear(2);
    Random random(1, static_cast<std::uint64_t>(index));
    double wave[3][4];
    for (auto& channel : wave) {
      for (auto& number : channel) number = random.uniform();
    }
    std::vector<std::byte> pixels;
    for (int y = 0; y < kSize; ++y) {
      for (int x = 0; x < kSize; ++x) {
        for (const auto& channel : wave) {
          const double value = 128 + 80 * std::sin(x * channel[0] * 0.3 + y * channel[1] * 0.3 + 6 * channel[2]) +
                               24 * (random.uniform() - 0.5);
          pixels.push_back(static_cast<std::byte>(std::clamp(value, 0.0, 255.0)));
        }
      }
    }
    data::ImageSize size;
    size.height = size.width = kSize;
    size.channels = 3;
    const std::string jpeg = data::encode_jpeg(pixels, size, 90);
    const auto memory = sample.scratch.take(jpeg.size());
    std::copy(jpeg.begin(), jpeg.end(), reinterpret_cast<char*>(memory.data()));
    const auto label = sample.scratch.take(sizeof(std::int64_t));
    *reinterpret_cast<std::int64_t*>(label.data()) = index % IoData::kClasses;
    sample.values[0] = {memory, {}, false};
    sample.values[1] = {label, {}, false};
  }

 private:
  std::int64_t count_;
  data::Schema schema_ = {{"jpg", Encoding::Jpeg}, {"cls", Encoding::Values, c10::ScalarType::Long}};
};

void make_images(const IoData& io) {
  const auto photographs = std::make_shared<Photographs>(io.images);
  Progress progress("making images.tar", "images", io.images);
  data::PackOptions options;
  data::pack(photographs, io.tar(), options, [&](std::int64_t count) { progress.add(count); });
}

bool has_shards(const IoData& io) {
  return std::any_of(fs::directory_iterator(io.folder), fs::directory_iterator(), [](const auto& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with("images-") && name.ends_with(".tar");
  });
}

/// Shards, and one file per image as people have them; the benchmark of formats makes those alone.
void make_copies(const IoData& io, bool has_folder) {
  const auto images = data::open(io.tar());
  Progress progress("making copies of it", "images", (has_folder ? 1 : 2) * io.images);
  const auto copy = [&](const std::string& path, const data::PackOptions& options) {
    data::pack(images, path, options, [&](std::int64_t count) { progress.add(count); });
  };
  data::PackOptions shards, folder;
  shards.shard_samples = (io.images + IoData::kShards - 1) / IoData::kShards;
  folder.format = "folder";
  copy(io.tar(), shards);
  if (!has_folder) copy(io.images_folder(), folder);
}

void make_records(const IoData& io) {
  WholeFile file(io.npy());
  file.write(data::npy_header(c10::ScalarType::Byte, {io.records, IoData::kRecordBytes}));
  Progress progress("making records.npy", "records", io.records);
  std::string row(IoData::kRecordBytes, '\0');
  for (std::int64_t i = 0; i < io.records; ++i) {
    for (std::size_t byte = 0; byte < row.size(); byte += 8) {
      const std::uint64_t word = mix(static_cast<std::uint64_t>(i), byte);
      row.replace(byte, 8, reinterpret_cast<const char*>(&word), 8);
    }
    file.write(row);
    progress.add(1);
  }
  file.commit();
}

void read_through(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size()))) {
  }
}

}  // namespace

void check_samples(const std::string& source, std::int64_t wanted) {
  const std::int64_t there = data::open(source)->size();
  if (there == wanted) return;
  fail(Fault::Usage, fmt::format("{} is of an earlier run and has {} samples, not {}; name another --folder, or remove "
                                 "this one",
                                 source, there, wanted));
}

void warm(const std::vector<std::string>& sources) {
  for (const auto& source : sources) {
    for (const auto& path : data::expand(source)) {
      if (const auto index = data::index_file_of(path); !index.empty()) read_through(index);
      if (!fs::is_directory(path)) {
        read_through(path);
        continue;
      }
      for (const auto& file : fs::recursive_directory_iterator(path)) {
        if (file.is_regular_file()) read_through(file.path());
      }
    }
  }
}

void IoData::prepare_sources() const {
  fs::create_directories(folder);
  fs::exists(tar()) ? check_samples(tar(), images) : make_images(*this);
  fs::exists(npy()) ? check_samples(npy(), records) : make_records(*this);
}

void IoData::prepare() const {
  prepare_sources();
  const bool has_folder = fs::exists(images_folder());
  if (has_folder) check_samples(images_folder(), images);
  has_folder&& has_shards(*this) ? check_samples(shards(), images) : make_copies(*this, has_folder);
  warm({tar(), shards(), images_folder(), npy()});
}

}  // namespace lockstep::apps
