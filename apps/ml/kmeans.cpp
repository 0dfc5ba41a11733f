// `lockstep kmeans`: clusters of rows, or the colours of a picture.
#include "lockstep/ml/algorithms/kmeans.h"

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
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
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/data/image.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep kmeans data.npy -k 10 -n 4 -o model.safetensors     four ranks, the model in a file
  lockstep kmeans 'part-*.csv' -k 5 --columns age,income --init random --n-init 20
  lockstep kmeans data.npy -k 100 --batch-size 4096            by batches, where passes take too long
  lockstep kmeans --image photo.jpg -k 64 -o quantised.png     a picture in 64 colours
The centroids have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  ml::KMeansOptions kmeans;
  ml::MiniBatchKMeansOptions batches;  // what kmeans has too is taken from there
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> max_iter;  // their defaults differ
  std::optional<double> tol;
  std::string image;

  ml::KMeansOptions by_passes() const {
    auto result = kmeans;
    if (max_iter) result.max_iter = *max_iter;
    if (tol) result.tol = *tol;
    return result;
  }
  ml::MiniBatchKMeansOptions by_batches() const {
    auto result = batches;
    result.n_clusters = kmeans.n_clusters;
    result.init = kmeans.init;
    result.n_init = kmeans.n_init;
    result.random_state = kmeans.random_state;
    if (batch_size) result.batch_size = *batch_size;
    if (max_iter) result.max_iter = *max_iter;
    if (tol) result.tol = *tol;
    return result;
  }
};

/// Of what comes often: some lines at first, then fewer and fewer.
bool worth_a_line(std::int64_t number) {
  std::int64_t every = 1;
  while (number >= 10 * every) every *= 10;
  return number % every == 0;
}

void tell_pass(const ml::KMeansPass& pass) {
  if (!worth_a_line(pass.iteration) && pass.changed != 0) return;
  fmt::print(stderr, "iteration {}  {} labels changed  centroids moved {:.4g}\n", pass.iteration,
             with_commas(pass.changed), pass.shift);
}

void tell_batch(const ml::MiniBatchStep& step) {
  if (!worth_a_line(step.step)) return;
  fmt::print(stderr, "batch {} of {} at most  inertia of a row {:.4g}\n", with_commas(step.step),
             with_commas(step.steps), step.smoothed);
}

/// By passes or by batches, as the options say. A collective.
ml::ModelFile fit(const Options& options, const ml::Table& table, bool speaks) {
  if (options.batch_size) {
    ml::MiniBatchKMeans kmeans(options.by_batches());
    kmeans.fit(table, speaks ? tell_batch : std::function<void(const ml::MiniBatchStep&)>());
    return kmeans.file(table);
  }
  ml::KMeans kmeans(options.by_passes());
  kmeans.fit(table, speaks ? tell_pass : std::function<void(const ml::KMeansPass&)>());
  return kmeans.file(table);
}

void report(const Options& options, const ml::ModelFile& model, const ml::Table& table, double seconds) {
  const auto kmeans = ml::KMeansModel::from(model);
  const std::int64_t clusters = kmeans.cluster_centers().size(0);
  const auto batches = model.parameters.value("n_steps", std::int64_t{0});
  if (options.ml.json) {
    nlohmann::json json = {{"algorithm", "kmeans"},         {"rows", table.rows()}, {"columns", table.columns()},
                           {"ranks", table.group().size()}, {"clusters", clusters}, {"inertia", kmeans.inertia()},
                           {"iterations", kmeans.n_iter()}, {"seconds", seconds},   {"output", options.ml.output}};
    if (batches > 0) json["batches"] = batches;
    fmt::print("{}", json_text(json));
    return;
  }
  fmt::print(
      "{} rows of {} columns, {} clusters: inertia {:.6g} after {} in {}\n", with_commas(table.rows()), table.columns(),
      clusters, kmeans.inertia(),
      batches > 0 ? fmt::format("{} batches", with_commas(batches)) : fmt::format("{} iterations", kmeans.n_iter()),
      format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

void cluster_rows(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  const ml::ModelFile model = fit(options, *table, /*speaks=*/world.rank() == 0 && !options.ml.json);
  if (world.rank() != 0) return;
  const double seconds = watch.seconds();
  write_output(options.ml.output, model, *table);
  report(options, model, *table, seconds);
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
  const Stopwatch watch;
  const ml::ModelFile model = fit(options, *table, /*speaks=*/false);
  if (world.rank() != 0) return;
  const auto kmeans = ml::KMeansModel::from(model);
  const double seconds = watch.seconds();
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
  report(options, model, *table, seconds);
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
  (void)ml::KMeans(options.by_passes());
  (void)ml::MiniBatchKMeans(options.by_batches());
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
  command->add_option("--n-init", kmeans.n_init,
                      "Starts, of which the best counts; by default 1, of random 10 (by batches 3)");
  command->add_option("--max-iter", options->max_iter, "Passes of a start at most; by default 300, by batches 100")
      ->check(whole_from(1));
  command->add_option("--tol", options->tol,
                      "Ends when centroids move less, in variances of the data; by default 1e-4, by batches 0");
  command->add_option("--seed", kmeans.random_state, "Of chance")->capture_default_str();
  command->add_option("--empty", kmeans.empty, "Centroids without rows: farthest, keep or error")
      ->capture_default_str();
  auto* by_batches = command
                         ->add_option("--batch-size", options->batch_size,
                                      "By batches of so many drawn rows, instead of passes over all; 1024 is usual")
                         ->check(whole_from(1));
  command->add_option("--init-size", options->batches.init_size, "Rows drawn for a start; by default of 3 batches")
      ->check(whole_from(1))
      ->needs(by_batches);
  command
      ->add_option("--max-no-improvement", options->batches.max_no_improvement,
                   "Batches without a better inertia that end it; 0: none do")
      ->capture_default_str()
      ->needs(by_batches);
  command
      ->add_option("--reassignment-ratio", options->batches.reassignment_ratio,
                   "Centroids with less than this share of the largest one's rows go elsewhere")
      ->capture_default_str()
      ->needs(by_batches);
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
