// What backward keeps of a model, by how much of it is computed again.
#include <memory>
#include <optional>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/testing.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/layers/made_input.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/testing.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

/// What tensors of this thread take more than before.
class TakenBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override { sum += bytes; }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t sum = 0;
};

constexpr std::int64_t kBatch = 3, kTime = 10, kWidth = 12, kLayers = 2, kHidden = 40;

enum class Recompute { None, Inputs, Full };

struct Kept {
  std::int64_t bytes = 0;
  parallel::Parameters gradients;
};

Kept kept(const std::string& more, Recompute what, Precision precision, comm::Communicator& group) {
  const std::string recipe = "[model]\nwidth = 12\nheads = 3\nlayers = 2\nhidden = 40\n" + more;
  const auto model = models::make_model("gpt", Config::from_text(recipe), "model", {{kTime}, kBatch * kTime}, 4);
  parallel::DataParallel engine(parallel::parameters_of(model->module()), group);
  parallel::ChainPass::Options options;
  if (what == Recompute::Full) options.recomputes = [](std::size_t) { return true; };
  options.scope = [what, precision] {
    struct Scope {
      explicit Scope(Precision of) : autocast(of, at::kCPU) {}
      Autocast autocast;
      std::optional<parallel::MadeInputsDropped> dropped;
    };
    const auto scope = std::make_shared<Scope>(precision);
    if (what == Recompute::Inputs) scope->dropped.emplace();
    return scope;
  };
  parallel::ChainPass pass(model->chain(), 0, model->chain().size(), options);
  const at::Tensor tokens = at::arange(kBatch * kTime).view({kBatch, kTime});
  const auto taken = std::make_shared<TakenBytes>();
  at::Tensor output;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, taken);
    output = pass.forward(tokens);
  }
  (void)pass.backward(output.sin());
  engine.finish();
  return {taken->sum, engine.gradients()};
}

TEST(Recompute, KeepsLess) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    for (const std::string more : {"", "activation = 'swiglu'\npositions = 'rotary'"}) {
      for (const auto& [precision, bytes] : {std::pair(Precision::Float32, 4), {Precision::Bf16, 2}}) {
        const Kept all = kept(more, Recompute::None, precision, group);
        const Kept less = kept(more, Recompute::Inputs, precision, group);
        // Of every block the outputs of two norms and of the activation function.
        EXPECT_EQ(all.bytes - less.bytes, kLayers * kBatch * kTime * (2 * kWidth + kHidden) * bytes) << more;
        EXPECT_LT(kept(more, Recompute::Full, precision, group).bytes, less.bytes) << more;
        ASSERT_EQ(all.gradients.size(), less.gradients.size());
        for (std::size_t i = 0; i < all.gradients.size(); ++i) {
          const at::Tensor &one = less.gradients[i].tensor, &other = all.gradients[i].tensor;
          const double most = precision == Precision::Float32 ? 0 : 1e-2 * other.norm().item<double>();
          EXPECT_LE((one - other).norm().item<double>(), most) << more << ", " << all.gradients[i].name;
        }
      }
    }
  });
}

TEST(Recompute, RefusesNormsThatWouldCountTwice) {
  struct Net : torch::nn::Module {
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  } net;
  const parallel::Chain chain{{"first", {}, {}}, {"second", {"norm"}, {}}};
  const auto check_link = [&](std::size_t recomputed) {
    check_recomputed(net, chain, [=](std::size_t link) { return link == recomputed; });
  };
  check_link(0);
  EXPECT_NE(test::message_of([&] { check_link(1); }, Fault::Usage)
                .find("'norm' is a norm of torch::nn in 'second', which recompute computes twice"),
            std::string::npos);
}

TEST(TrainerCheck, RefusesLayersThatDrawByThemselves) {
  const torch::nn::Sequential plain(torch::nn::Linear(4, 4)), drawing(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  EXPECT_NO_THROW(check_exact(*plain));
  EXPECT_NO_THROW(check_split(*plain));
  EXPECT_SAYS(test::message_of([&] { check_exact(*drawing); }, Fault::Usage), "'1' is a layer of torch::nn that draws");
  EXPECT_SAYS(test::message_of([&] { check_split(*drawing); }, Fault::Usage), "with parallel.tensor leave them to");
}

}  // namespace
}  // namespace lockstep::train
