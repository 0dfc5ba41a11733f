// `lockstep kmeans`: clusters of rows, or the colours of a picture.
#include "lockstep/ml/algorithms/kmeans.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/text.h"
#include "lockstep/data/image.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep kmeans data.npy -k 10 -n 4 -o model.safetensors     four ranks, the model in a file
  lockstep kmeans 'part-*.csv' -k 5 --columns age,income --init random --n-init 20
  lockstep kmeans --image photo.jpg -k 64 -o quantised.png     a picture in 64 colours
The centroids have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  ml::KMeansOptions kmeans;
  std::string image;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Convergence: some lines at first, then fewer and fewer.
void tell(const ml::KMeansPass& pass) {
  std::int64_t every = 1;
  while (pass.iteration >= 10 * every) every *= 10;
  if (pass.iteration % every != 0 && pass.changed != 0) return;
  fmt::print(stderr, "iteration {}  {} labels changed  centroids moved {:.4g}\n", pass.iteration,
             with_commas(pass.changed), pass.shift);
}

void report(const Options& options, const ml::KMeans& kmeans, std::int64_t rows, std::int64_t columns, int ranks,
            double seconds) {
  if (options.ml.json) {
    const nlohmann::json json = {{"algorithm", "kmeans"},
                                 {"rows", rows},
                                 {"columns", columns},
                                 {"ranks", ranks},
                                 {"clusters", kmeans.cluster_centers().size(0)},
                                 {"inertia", kmeans.inertia()},
                                 {"iterations", kmeans.n_iter()},
                                 {"seconds", seconds},
                                 {"output", options.ml.output}};
    fmt::print("{}", json_text(json));
    return;
  }
  fmt::print("{} rows of {} columns, {} clusters: inertia {:.6g} after {} iterations in {}\n", with_commas(rows),
             columns, kmeans.cluster_centers().size(0), kmeans.inertia(), kmeans.n_iter(), format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

void cluster_rows(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  ml::KMeans kmeans(options.kmeans);
  const auto begin = Clock::now();
  const bool speaks = world.rank() == 0 && !options.ml.json;
  kmeans.fit(*table, speaks ? tell : std::function<void(const ml::KMeansPass&)>());
  if (world.rank() != 0) return;
  const double seconds = seconds_since(begin);
  if (!options.ml.output.empty()) ml::write_model(options.ml.output, kmeans.file(*table));
  report(options, kmeans, table->rows(), table->columns(), world.size(), seconds);
}

/// Pixels are rows of three columns. Every rank decodes the picture and takes its part.
void quantise(const Options& options, comm::Communicator& world) {
  const std::string bytes = read_whole(options.image);
  data::Scratch scratch;
  const auto image = data::decode_image(std::as_bytes(std::span(bytes)), 3, scratch);
  const std::int64_t pixels = std::int64_t{image.height} * image.width;
  const at::Tensor colours = at::empty({pixels, 3}, at::kFloat);
  for (std::int64_t i = 0; i < colours.numel(); ++i) {
    colours.mutable_data_ptr<float>()[i] = static_cast<float>(image.pixels[static_cast<std::size_t>(i)]);
  }
  const std::int64_t first = pixels * world.rank() / world.size(), end = pixels * (world.rank() + 1) / world.size();
  const auto table = ml::make_table(world, {.x = colours.slice(0, first, end), .names = {"red", "green", "blue"}});
  ml::KMeans kmeans(options.kmeans);
  const auto begin = Clock::now();
  kmeans.fit(*table);
  if (world.rank() != 0) return;
  const double seconds = seconds_since(begin);
  const at::Tensor palette = kmeans.cluster_centers().round().clamp(0, 255).to(at::kByte).contiguous();
  const at::Tensor labels = kmeans.predict(colours);
  std::vector<std::byte> painted(static_cast<std::size_t>(colours.numel()));
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    const auto label = labels.const_data_ptr<std::int32_t>()[pixel];
    std::memcpy(painted.data() + 3 * pixel, palette.const_data_ptr<std::uint8_t>() + std::int64_t{3} * label, 3);
  }
  WholeFile file(options.ml.output);
  file.write(data::encode_png(painted, image));
  file.commit();
  report(options, kmeans, table->rows(), 3, world.size(), seconds);
  if (options.ml.json) return;
  for (std::int64_t colour = 0; colour < palette.size(0); ++colour) {
    const auto* rgb = palette.const_data_ptr<std::uint8_t>() + 3 * colour;
    fmt::print("#{:02x}{:02x}{:02x}{}", rgb[0], rgb[1], rgb[2],
               colour % 8 == 7 || colour + 1 == palette.size(0) ? "\n" : " ");
  }
}

void check(const Options& options) {
  if (options.image.empty() == options.ml.from.source.empty()) {
    fail(Fault::Usage, "name a data set, or a picture by --image");
  }
  if (!options.image.empty() && !options.ml.output.ends_with(".png")) {
    fail(Fault::Usage, "the picture is written as PNG: name its file by -o quantised.png");
  }
  (void)ml::KMeans(options.kmeans);
}

}  // namespace

void add_kmeans(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("kmeans", "Clusters of rows by K-means, on any number of ranks");
  command->footer(kExamples);
  auto& kmeans = options->kmeans;
  options->ml.add_to(*command, /*needs_source=*/false);
  command->add_option("-k,--n-clusters", kmeans.n_clusters, "Number of clusters")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--init", kmeans.init, "Where it begins")
      ->transform(CLI::Transformer({{"plusplus", "k-means++"}, {"parallel", "k-means||"}}))
      ->capture_default_str();
  command->add_option("--n-init", kmeans.n_init, "Starts, of which the best counts; by default 1, of random 10");
  command->add_option("--max-iter", kmeans.max_iter, "Passes of a start at most")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--tol", kmeans.tol, "Ends when centroids move less, in variances of the data")
      ->capture_default_str();
  command->add_option("--seed", kmeans.random_state, "Of chance")->capture_default_str();
  command->add_option("--empty", kmeans.empty, "Centroids without rows: farthest, keep or error")
      ->capture_default_str();
  command->add_option("--image", options->image, "A JPEG or PNG, whose colours are clustered");
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors) or the picture (.png)");
  command->callback([options, words] {
    check(*options);
    on_ml_ranks(options->ml, words, [&](comm::Communicator& world) {
      options->image.empty() ? cluster_rows(*options, world) : quantise(*options, world);
    });
  });
}

}  // namespace lockstep::apps
