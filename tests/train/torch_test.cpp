// Every model of the zoo beside PyTorch: the same weights and batches, on 4 ranks here and
// under DistributedDataParallel there.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include "background.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/testing.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 4;

struct Case {
  const char* name;
  const char* recipe;
};

// Without dropout, whose masks are of another generator there. Parts of ranks are equal, as the mean of means asks for.
const Case kCases[] = {
    {"mlp", R"(
batch = 16
[data]
train = "blobs:samples=160,dims=20,classes=5"
[model]
name = "mlp"
hidden = [32, 24]
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
nesterov = true
weight_decay = 0.001
)"},
    {"cnn", R"(
batch = 8
[data]
train = "images:samples=64,size=12,channels=1,classes=4"
transforms = ["normalise image mean=0.5 std=0.25"]
[model]
name = "mnist_cnn"
dropout = 0.0
[optimizer]
name = "adamw"
lr = 0.001
weight_decay = 0.01
)"},
    {"resnet18", R"(
batch = 16
[data]
train = "images:samples=160,size=16,channels=3,classes=4"
transforms = ["normalise image mean=0.5,0.5,0.5 std=0.25,0.25,0.25"]
[model]
name = "resnet18"
width = 8
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
weight_decay = 0.0005
)"},
    {"lstm", R"(
batch = 8
clip_norm = 0.5
[data]
train = "tokens:samples=80,length=13,vocabulary=40"
[task]
name = "next_token"
vocabulary = 40
[model]
name = "lstm"
width = 12
hidden = 20
layers = 2
[optimizer]
name = "adamw"
lr = 0.005
weight_decay = 0.01
)"},
    {"gpt", R"(
batch = 8
clip_norm = 1.0
[data]
train = "tokens:samples=80,length=13,vocabulary=40"
[task]
name = "next_token"
vocabulary = 40
[model]
name = "gpt"
width = 24
layers = 2
heads = 3
[optimizer]
name = "adamw"
lr = 0.002
weight_decay = 0.1
)"},
};

/// What a run has seen and come to, by name.
class Record {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    tensors_.insert_or_assign(name, tensor.detach().clone());
  }
  void add(const std::string& prefix, const torch::nn::Module& model) {
    for (const auto& all : {parallel::parameters_of(model), parallel::buffers_of(model)}) {
      for (const auto& [name, tensor] : all) add(prefix + name, tensor);
    }
  }
  void write(const fs::path& path) const {
    parallel::Parameters all;
    for (const auto& [name, tensor] : tensors_) all.push_back({name, tensor});
    data::write_safetensors(path.string(), all);
  }

  std::vector<double> losses;  // by step
  const torch::nn::Module* of_first_rank = nullptr;

 private:
  std::mutex mutex_;
  std::map<std::string, at::Tensor> tensors_;
};

/// The task of a recipe, whose batches and first weights are kept.
class RecordedTask final : public train::Task {
 public:
  RecordedTask(std::unique_ptr<train::Task> task, Record& record) : task_(std::move(task)), record_(record) {
    record_.add("first/", task_->model());
  }
  torch::nn::Module& model() override { return task_->model(); }
  train::Score score(const data::Batch& batch) override {
    const std::int64_t rank = batch.first * kRanks / batch.global_count;
    if (rank == 0) record_.of_first_rank = &model();
    for (std::size_t field = 0; field < batch.tensors.size(); ++field) {
      record_.add("batch/" + std::to_string(step_) + "/" + std::to_string(rank) + "/" + std::to_string(field),
                  batch.tensors[field]);
    }
    ++step_;
    return task_->score(batch);
  }

 private:
  std::unique_ptr<train::Task> task_;
  Record& record_;
  int step_ = 0;
};

class Losses final : public train::Observer {
 public:
  explicit Losses(Record& record) : record_(record) {}
  void on_step(const train::StepReport& report) override { record_.losses.push_back(report.loss); }

 private:
  Record& record_;
};

/// Leaves FOLDER/NAME-PRECISION.safetensors and .json for the other side.
void record(const Case& one, const std::string& precision, int steps, const fs::path& folder) {
  std::vector<std::string> settings = {"precision=" + precision, "steps=" + std::to_string(steps)};
  // A fused step leaves every rank its own gradients.
  if (steps == 1) settings.emplace_back("fuse_step=false");
  Record record;
  train::testing::train(
      kRanks, settings, {}, one.recipe, std::make_shared<Losses>(record),
      [&record](train::RecipeRun& run) { run.task = std::make_unique<RecordedTask>(std::move(run.task), record); },
      [&record](const torch::nn::Module& model) {
        // Statistics of batch norms are each rank's own; gradients are those of the last step.
        if (&model != record.of_first_rank) return;
        record.add("last/", model);
        for (const auto& [name, tensor] : parallel::parameters_of(model)) record.add("gradient/" + name, tensor.grad());
      });
  ASSERT_EQ(record.losses.size(), static_cast<std::size_t>(steps)) << one.name;
  const std::string stem = (folder / (std::string(one.name) + "-" + precision)).string();
  record.write(stem + ".safetensors");
  const auto recipe = nlohmann::json::parse(Config::from_text(one.recipe).json());
  std::ofstream(stem + ".json") << nlohmann::json{
      {"model", one.name}, {"precision", precision}, {"recipe", recipe}, {"losses", record.losses}};
}

TEST(Torch, TrainsAsDistributedDataParallelDoes) {
  const fs::path folder = fs::path(testing::TempDir()) / ("torch_test_" + std::to_string(getpid()));
  fs::create_directory(folder);
  for (const auto& one : kCases) {
    record(one, "float64", 50, folder);
    record(one, "float32", 1, folder);
  }
  Background reference({LOCKSTEP_PYTHON, LOCKSTEP_REFERENCE, folder.string()});
  const int code = reference.wait(240);
  fs::remove_all(folder);
  if (code == 77) GTEST_SKIP() << reference.output();
  EXPECT_EQ(code, 0) << reference.output() << reference.errors();
  printf("%s", reference.output().c_str());
}

}  // namespace
}  // namespace lockstep::test
