// A network of your own in the hands of the Trainer: it knows of ranks, schedules, tests
// and checkpoints. Usage: mnist_trainer [SET [STEPS [TEST]]]; see also mnist_own_loop.cpp.
#include <cstdlib>

#include <fmt/format.h>
#include <torch/torch.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/data/open.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

/// What is learned: a model, and the loss of a batch as a sum and a count.
class MnistTask : public train::Task {
 public:
  torch::nn::Module& model() override { return *net_; }
  train::Score score(const data::Batch& batch) override {
    const auto outputs = net_->forward(batch["image"]);
    const auto labels = batch["label"].to(torch::kLong);
    return {torch::cross_entropy_loss(outputs, labels, {}, at::Reduction::Sum), labels.numel(), outputs.detach(),
            labels};
  }

 private:
  torch::nn::Sequential net_{torch::nn::Conv2d(1, 16, 5), torch::nn::MaxPool2d(2),         torch::nn::ReLU(),
                             torch::nn::Flatten(),        torch::nn::Linear(16 * 144, 64), torch::nn::ReLU(),
                             torch::nn::Linear(64, 10)};
};

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Runtime& runtime) {
    const auto set = data::open(argc > 1 ? argv[1] : "mnist");
    const auto test = data::open(argc > 3 ? argv[3] : "mnist-test");
    const Config settings = Config::from_text("[optimizer]\nmomentum = 0.9");
    train::Trainer trainer(runtime.world(), {.steps = argc > 2 ? std::atol(argv[2]) : 200,
                                             .batch = 64 * runtime.size(),
                                             .lr = 0.02,
                                             .optimizer = parallel::make_optimizer("sgd", settings, "optimizer"),
                                             .metrics = {train::make_metric("accuracy")}});
    MnistTask task;
    const auto result = trainer.fit(task, {.train = set,
                                           .test = test,
                                           .transforms = {"normalise image mean=0.1307 std=0.3081"},
                                           .evaluation_transforms = {"normalise image mean=0.1307 std=0.3081"}});
    if (runtime.rank() != 0) return;
    fmt::print("{} steps, loss {:.3f}", result.steps, result.loss);
    // Asked by SIGTERM. With .checkpoints = {.folder = …, .resume = true} the next start would go on from here.
    if (result.stopped) return fmt::print(", stopped before its end; nothing is saved\n");
    for (const auto& [name, value] : result.evaluations.back().figures) fmt::print(", test {} {:.3f}", name, value);
    fmt::print("\n");
  });
}
