// lockstep/train/cut_cases.h
//
// For tests of models that are cut over ranks: recipes, the layouts under which they are trained, and
// that these learn the same.
#pragma once

#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/norm.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/train/checkpoint.h"
#include "lockstep/train/metric.h"

namespace lockstep::train::testing {

using Weights = std::map<std::string, at::Tensor>;

/// Of the last checkpoint, parts that ranks had put together; running statistics are left out.
inline Weights saved_weights(const std::string& folder) {
  const auto checkpoint = CheckpointFolder(folder).newest();
  Weights weights;
  for (const auto& name : checkpoint->tensors.names()) {
    const bool statistics = name.find("running_") != std::string::npos || name.ends_with("num_batches_tracked");
    if (name.find('/') == std::string::npos && !statistics) weights[name] = checkpoint->tensors.read(name);
  }
  return weights;
}

struct Learned {
  std::vector<double> losses;
  Weights weights;
  Figures figures;
};

/// Losses to 1e-9, weights to 1e-8 of their norm.
inline void expect_same(const Learned& one, const Learned& other, const std::string& what) {
  ASSERT_EQ(one.losses.size(), other.losses.size()) << what;
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    EXPECT_NEAR(one.losses[step] / other.losses[step], 1, 1e-9) << what << ", step " << step;
  }
  ASSERT_EQ(one.weights.size(), other.weights.size()) << what;
  for (const auto& [name, weight] : one.weights) {
    const at::Tensor& same = other.weights.at(name);
    EXPECT_LE((weight - same).norm().item<double>(), 1e-8 * same.norm().item<double>()) << what << ", " << name;
  }
}

inline const std::map<std::string, std::string> kRecipes = {{"gpt", R"(
steps = 20
batch = 7
clip_norm = 0.5
metrics = ["perplexity", "accuracy"]
[data]
train = "tokens:samples=40,length=9,vocabulary=61"
test = "tokens:samples=10,length=9,vocabulary=61"
[task]
name = "next_token"
vocabulary = 61
[model]
name = "gpt"
width = 8
layers = 2
heads = 2
dropout = 0.1
[optimizer]
name = "adamw"
lr = 0.01
weight_decay = 0.1
no_decay = ["*.bias"]
)"},
                                                            {"mlp", R"(
steps = 20
batch = 14
[data]
train = "blobs:samples=130,dims=6,classes=3"
test = "blobs:samples=50,dims=6,classes=3"
[model]
name = "mlp"
hidden = [9, 8, 7, 8, 9, 8, 7]
dropout = 0.2
[optimizer]
name = "adam"
lr = 0.01
)"},
                                                            {"mnist_cnn", R"(
steps = 20
batch = 14
[data]
train = "images:samples=60,size=16,classes=3"
test = "images:samples=10,size=16,classes=3"
transforms = ["normalise image"]
[model]
name = "mnist_cnn"
dropout = 0.5
[optimizer]
name = "sgd"
lr = 0.01
)"},
                                                            {"resnet18", R"(
steps = 20
batch = 15  # so that ranks and pieces see the same samples together, which batch norms look at
[data]
train = "images:samples=60,size=16,classes=3"
test = "images:samples=10,size=16,classes=3"
transforms = ["normalise image"]
[model]
name = "resnet18"
width = 4
[optimizer]
name = "sgd"
lr = 0.01
)"}};

struct Layout {
  std::string name;
  int ranks;
  std::vector<std::string> settings;
  int pieces;         // of one process
  bool full = false;  // takes long for what it adds: run where time is of no concern

  bool shares_samples() const { return name.find("data") != std::string::npos; }
};
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

/// Each of data, tensor, pipe under each schedule and zero, and each pair and triple of them on up to 8 ranks.
inline std::vector<Layout> all_layouts() {
  std::vector<Layout> all{
      {"data2", 2, {}, 2}, {"tensor2", 2, {"parallel.tensor=2"}, 1}, {"tensor2_data2", 4, {"parallel.tensor=2"}, 2}};
  for (const int zero : {1, 2, 3}) {
    const std::string set = fmt::format("parallel.zero={}", zero), name = fmt::format("zero{}", zero);
    all.push_back({name + "_data2", 2, {set, "fuse_step=false"}, 2});
    all.push_back({name + "_tensor2", 2, {set, "parallel.tensor=2"}, 1});
    all.push_back({name + "_data3_pieces2", 3, {set, "accumulate=2"}, 6});
    all.push_back({name + "_data2_tensor2", 4, {set, "parallel.tensor=2"}, 2});
    all.push_back({name + "_data2_copies2", 4, {set, "parallel.zero_ranks=2", "fuse_step=false"}, 4});
    all.push_back({name + "_pipe2_data2_tensor2", 8, {set, "parallel.pipe=2", "parallel.tensor=2", "accumulate=2"}, 4});
  }
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    const bool usual = schedule == "1f1b";
    const std::string name = usual ? "one_f_one_b" : schedule;
    const auto add = [&](const std::string& kind, int ranks, std::vector<std::string> settings, int micro_batches,
                         int pieces, bool full) {
      settings.insert(settings.end(), {"parallel.pipe=2", "parallel.schedule=" + schedule,
                                       fmt::format("accumulate={}", micro_batches)});
      all.push_back({kind + "_" + name, ranks, settings, pieces, full});
    };
    add("pipe2", 2, {}, 4, 4, false);
    add("pipe2_data2", 4, {}, 2, 4, false);
    add("pipe2_tensor2", 4, {"parallel.tensor=2"}, 2, 2, false);
    add("pipe2_tensor2_data2", 8, {"parallel.tensor=2"}, 2, 4, !usual);
    for (const int zero : {1, 2, 3}) {
      const std::string set = fmt::format("parallel.zero={}", zero), zero_name = fmt::format("zero{}_", zero);
      add(zero_name + "pipe2", 2, {set}, 4, 4, !usual);
      add(zero_name + "pipe2_data2", 4, {set}, 2, 4, false);
      add(zero_name + "pipe2_tensor2", 4, {set, "parallel.tensor=2"}, 2, 2, true);
    }
  }
  return all;
}

inline std::vector<Layout> layouts(bool full = false) {
  auto some = all_layouts();
  std::erase_if(some, [full](const Layout& layout) { return layout.full != full; });
  return some;
}

inline Layout layout_named(const std::string& name) {
  for (const auto& layout : all_layouts()) {
    if (layout.name == name) return layout;
  }
  throw std::invalid_argument(name);
}

}  // namespace lockstep::train::testing
