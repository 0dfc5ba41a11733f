// `lockstep kmeans`: clusters of rows, or the colours of a picture.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commands.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/stopwatch.h"
#include "ml/kmeans_centers.h"
#include "ml/kmeans_command.h"
#include "ml/kmeans_elbow.h"
#include "ml/kmeans_image.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep kmeans data.npy -k 10 -n 4 -o model.safetensors     four ranks, the model in a file
  lockstep kmeans 'part-*.csv' -k 5 --columns age,income --init random --n-init 20
  lockstep kmeans data.npy -k 2:20 --plot elbow.svg -o model.safetensors     how many clusters are enough
  lockstep kmeans new.npy --centers model.safetensors          on from where another fit ended
  lockstep kmeans data.npy -k 100 --batch-size 4096            by batches, where passes take too long
  lockstep kmeans --image photo.jpg -k 64 -o quantised.png --palette palette.svg     a picture in 64 colours
The centroids have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

void cluster_rows(const KMeansCommand& command, comm::Communicator& world) {
  const auto table = read_source(command.ml, world);
  auto own = command;
  begin_with_centers(own, *table);
  const Stopwatch watch;
  const ml::ModelFile model =
      fit_kmeans(own, *table, world.rank() == 0 && !own.ml.json ? Tells::Always : Tells::Nothing);
  if (world.rank() != 0) return;
  const double seconds = watch.seconds();
  write_output(own.ml.output, model);
  report_kmeans(own, model, *table, seconds);
}

void run(const KMeansCommand& command, comm::Communicator& world) {
  if (!command.image.empty()) return quantise(command, world);
  command.is_range() ? fit_range(command, world) : cluster_rows(command, world);
}

void check_range(const KMeansCommand& command) {
  if (!command.is_range()) {
    if (!command.plot.empty())
      fail(Fault::Usage, "--plot draws inertia over several numbers of clusters: give a range, -k 2:20");
    return;
  }
  if (command.cluster_counts().size() < 3)
    fail(Fault::Usage, fmt::format("-k {}: an elbow needs at least three numbers of clusters", command.clusters));
  if (!command.centers.empty()) fail(Fault::Usage, "--centers begin one number of clusters: leave the range of -k out");
  if (!command.image.empty()) fail(Fault::Usage, "--image paints with one number of colours: give one, -k 16");
}

void check(KMeansCommand& options) {
  if (options.image.empty() == options.ml.from.source.empty()) {
    fail(Fault::Usage, options.image.empty() ? "name a data set, or a picture by --image"
                                             : "name a data set or a picture by --image, not both");
  }
  if (!options.image.empty() && !options.ml.output.ends_with(".png")) {
    fail(Fault::Usage, "the picture is written as PNG: name its file by -o quantised.png");
  }
  check_range(options);
  const auto counts = options.cluster_counts();
  // Before hours of work on the others: what the smallest number allows the largest may not.
  for (const std::int64_t clusters : {counts.back(), counts.front()}) {
    options.kmeans.n_clusters = clusters;
    (void)ml::KMeans(options.by_passes());
    (void)ml::MiniBatchKMeans(options.by_batches());
  }
}

}  // namespace

void add_kmeans(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<KMeansCommand>();
  auto* command = app.add_subcommand("kmeans", "Clusters of rows by K-means, on any number of ranks");
  command->footer(kExamples);
  auto& kmeans = options->kmeans;
  options->ml.add_to(*command, /*needs_source=*/false);
  command
      ->add_option("-k,--n-clusters", options->clusters,
                   "Number of clusters, by default 8; 2:20 or 2:20:2 fits all of a range, of which -o has the elbow")
      ->check([](const std::string& text) { return std::string(text.empty() ? "takes a number" : ""); });
  command->add_option("--plot", options->plot, "Draw the inertia over a range of -k into this SVG file");
  auto* init = command->add_option("--init", kmeans.init, "Where it begins");
  init->transform(CLI::Transformer({{"plusplus", "k-means++"}, {"parallel", "k-means||"}}))->capture_default_str();
  auto* n_init = command
                     ->add_option("--n-init", kmeans.n_init,
                                  "Starts, of which the best counts; by default 1, of random 10 (by batches 3)")
                     ->check(whole_from(1));
  command
      ->add_option("--centers", options->centers,
                   "Centroids to begin with: rows of a file (.npy, .csv, …), or a model (.safetensors)")
      ->excludes(init)
      ->excludes(n_init);
  command->add_option("--max-iter", options->max_iter, "Passes of a start at most; by default 300, by batches 100")
      ->check(whole_from(1));
  command->add_option("--tol", options->tol,
                      "Ends when centroids move less, in variances of the data; by default 1e-4, by batches 0");
  command->add_option("--seed", kmeans.random_state, "Of chance")->check(whole_from(0))->capture_default_str();
  auto* empty = command->add_option("--empty", kmeans.empty, "Centroids without rows: farthest, keep or error")
                    ->capture_default_str();
  auto* by_batches = command
                         ->add_option("--batch-size", options->batch_size,
                                      "By batches of so many drawn rows, instead of passes over all; 1024 is usual")
                         ->check(whole_from(1))
                         ->excludes(empty);
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
  auto* image = command->add_option("--image", options->image, "A JPEG or PNG, whose colours are clustered");
  for (const char* of_tables : {"--columns", "--exclude", "--weights", "--onehot", "--ordinal", "--missing", "--scale",
                                "--memory", "--type", "--format", "--separator", "--no-header"}) {
    image->excludes(command->get_option(of_tables));
  }
  command->add_option("--palette", options->palette, "Draw those colours into this SVG file")->needs(image);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors) or the picture (.png)")
      ->check(file_name());
  command->callback([options, words] {
    check(*options);
    options->ml.endings = {{options->plot, ".svg"}, {options->palette, ".svg"}};
    if (options->image.empty()) options->ml.endings.emplace_back(options->ml.output, ".safetensors");
    options->ml.also_read = {options->image};
    // A model may go on where it is.
    if (!options->centers.ends_with(".safetensors")) options->ml.also_read.push_back(options->centers);
    on_ml_ranks(options->ml, words, {options->ml.output, options->plot, options->palette},
                [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
