#include "ml/kmeans_image.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/file.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/data/image.h"
#include "ml/kmeans_centers.h"
#include "svg.h"

namespace lockstep::apps {
namespace {

/// A cluster of pixels.
struct Colour {
  std::uint8_t rgb[3];
  std::int64_t pixels = 0;

  std::string code() const { return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]); }
};

std::vector<Colour> palette_of(const at::Tensor& centers) {
  const at::Tensor rounded = centers.round().clamp(0, 255).to(at::kByte).contiguous();
  std::vector<Colour> palette(static_cast<std::size_t>(rounded.size(0)));
  const auto* values = rounded.const_data_ptr<std::uint8_t>();
  for (auto& colour : palette) {
    std::copy_n(values, 3, colour.rgb);
    values += 3;
  }
  return palette;
}

/// The picture in colours of the palette, whose pixels are counted.
std::vector<std::byte> painted(const at::Tensor& labels, std::vector<Colour>& palette) {
  std::vector<std::byte> result(static_cast<std::size_t>(3 * labels.numel()));
  for (std::int64_t pixel = 0; pixel < labels.numel(); ++pixel) {
    auto& colour = palette[static_cast<std::size_t>(labels.const_data_ptr<std::int32_t>()[pixel])];
    std::memcpy(result.data() + 3 * pixel, colour.rgb, 3);
    ++colour.pixels;
  }
  return result;
}

/// A strip of all colours with their shares of the picture, the largest first; of many several strips.
std::string strip_of(std::vector<Colour> palette) {
  constexpr std::size_t kInARow = 16;
  constexpr double kWidth = 56, kHeight = 40, kStep = kHeight + 40, kRoom = 8;
  std::stable_sort(palette.begin(), palette.end(),
                   [](const Colour& one, const Colour& other) { return one.pixels > other.pixels; });
  double pixels = 0;
  for (const auto& colour : palette) pixels += static_cast<double>(colour.pixels);
  const auto rows = static_cast<double>((palette.size() + kInARow - 1) / kInARow);
  std::string out =
      svg::frame(2 * kRoom + kWidth * static_cast<double>(std::min(palette.size(), kInARow)), 2 * kRoom + kStep * rows);
  for (std::size_t i = 0; i < palette.size(); ++i) {
    const double x = kRoom + kWidth * static_cast<double>(i % kInARow),
                 y = kRoom + kStep * static_cast<double>(i / kInARow);
    out += svg::filled(x, y, kWidth, kHeight, palette[i].code()) +
           svg::text_at(x + kWidth / 2, y + kHeight + 15, "middle", palette[i].code(), " font-size=\"11\"") +
           svg::text_at(x + kWidth / 2, y + kHeight + 29, "middle",
                        fmt::format("{:.1f} %", 100 * static_cast<double>(palette[i].pixels) / pixels),
                        " font-size=\"11\"");
  }
  return out + svg::kEnd;
}

nlohmann::json json_of(const std::vector<Colour>& palette) {
  nlohmann::json colours = nlohmann::json::array();
  for (const auto& colour : palette) colours.push_back({{"colour", colour.code()}, {"pixels", colour.pixels}});
  return colours;
}

void print(const std::vector<Colour>& palette) {
  constexpr std::size_t kInALine = 8;
  for (std::size_t i = 0; i < palette.size(); ++i) {
    fmt::print("{}{}", palette[i].code(), i % kInALine == kInALine - 1 || i + 1 == palette.size() ? "\n" : " ");
  }
}

}  // namespace

void quantise(const KMeansCommand& command, comm::Communicator& world) {
  const std::string bytes = read_whole(command.image);
  data::Scratch scratch;
  const auto image = data::decode_image(std::as_bytes(std::span(bytes)), 3, scratch);
  const std::int64_t pixels = std::int64_t{image.height} * image.width;
  const at::Tensor colours = at::empty({pixels, 3}, at::kFloat);
  for (std::int64_t i = 0; i < colours.numel(); ++i) {
    colours.mutable_data_ptr<float>()[i] = static_cast<float>(image.pixels[static_cast<std::size_t>(i)]);
  }
  const std::int64_t first = pixels * world.rank() / world.size(), end = pixels * (world.rank() + 1) / world.size();
  const auto table = ml::make_table(world, {.x = colours.slice(0, first, end), .names = {"red", "green", "blue"}});
  auto own = command;
  begin_with_centers(own, *table);
  const Stopwatch watch;
  const bool tells = world.rank() == 0 && !own.ml.json;
  const ml::ModelFile model = fit_kmeans(own, *table, tells ? Tells::OnTerminals : Tells::Nothing);
  if (world.rank() != 0) return;
  const auto kmeans = ml::KMeansModel::from(model);
  const double seconds = watch.seconds();
  auto palette = palette_of(kmeans.cluster_centers());
  write_whole(own.ml.output, data::encode_png(painted(kmeans.predict(colours), palette), image));
  if (!own.palette.empty()) write_whole(own.palette, strip_of(palette));
  report_kmeans(own, model, *table, seconds, {{"palette", json_of(palette)}});
  if (own.ml.json) return;
  if (!own.palette.empty()) fmt::print("{}\n", own.palette);
  print(palette);
}

}  // namespace lockstep::apps
