// A network of your own under every way to cut it: its blocks are written as for one process, and say no more of
// themselves than that one comes after another. Usage: lockstep launch -n 4 -- own_blocks [STEPS]
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/core/text.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/train/recipe.h"

using namespace lockstep;

/// All layers could be torch's. Two are ours, parallel::Linear in place of torch::nn::Linear: a tensor plan may split
/// them. Nothing else here knows of ranks.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", parallel::Linear(width, 6 * width))),
        down(register_module("down", parallel::Linear(6 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm;
  parallel::Linear up, down;
};
TORCH_MODULE(Block);

struct OwnNet : torch::nn::Module {
  OwnNet(std::int64_t inputs, std::int64_t classes, std::int64_t width, std::int64_t count)
      : first(register_module("first", torch::nn::Linear(inputs, width))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        head(register_module("head", torch::nn::Linear(width, classes))) {
    for (std::int64_t block = 0; block < count; ++block) blocks->push_back(Block(width));
  }

  /// What forward does: links with a name, the modules that they use, and a function.
  parallel::Chain chain() {
    parallel::Chain links{{"first", {"first"}, [this](const torch::Tensor& x) { return first(x.flatten(1)); }}};
    for (std::size_t i = 0; i < blocks->size(); ++i) {
      const std::string name = fmt::format("blocks.{}", i);
      links.push_back(
          {name, {name}, [block = blocks->ptr<BlockImpl>(i)](const torch::Tensor& x) { return block->forward(x); }});
    }
    links.push_back({"head", {"head"}, [this](const torch::Tensor& x) { return head(x); }});
    return links;
  }

  torch::nn::Linear first;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head;
};

/// From now on recipes may name it.
const models::ModelRegistry::Add registered{
    "own_net", "Blocks of examples/own_blocks.cpp",
    [](const Config& recipe, const std::string& key, const models::ModelData& data) {
      return models::model_of<OwnNet>(data.input.at(0), data.outputs, recipe.get(key + ".width", 16),
                                      recipe.get(key + ".blocks", 6));
    }};

constexpr const char kRecipe[] = R"(
steps = 10
batch = 48
[data]
train = "blobs:samples=480,dims=12,classes=4"
[model]
name = "own_net"
[optimizer]
name = "adamw"
lr = 0.003
[parallel]
tensor_plan = { "blocks.*.up" = "column", "blocks.*.down" = "row" }
)";

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Runtime& runtime) {
    const std::vector<std::vector<std::string>> layouts = {
        {"fuse_step=false"},                    // a copy of the network on every rank
        {"parallel.zero=3", "recompute=full"},  // its weights shared out, activations computed again in backward
        {"accumulate=4", fmt::format("parallel.pipe={}", runtime.size())},  // some blocks on each rank
        {fmt::format("parallel.tensor={}", runtime.size())}};               // a part of every block on each rank
    double expected = 0;
    for (const auto& settings : layouts) {
      Config recipe = Config::from_text(kRecipe);
      if (argc > 1) recipe.set(fmt::format("steps={}", argv[1]));
      for (const auto& setting : settings) recipe.set(setting);
      auto run = train::make_run(recipe, runtime.world());
      const auto result = train::Trainer(runtime.world(), run.settings).fit(*run.task, run.data);
      if (runtime.rank() == 0) {
        fmt::print("{:<32} loss {:.6f}, {} of weights, gradients and optimizer on a rank\n", join(settings, " "),
                   result.loss, format_bytes(result.memory.use.state()));
      }
      // All layouts learn the same, but for the last digits: they add up in another order.
      if (expected == 0) expected = result.loss;
      if (std::abs(result.loss / expected - 1) > 1e-3)
        fail(Fault::Internal, fmt::format("{} has another loss than {}", join(settings, " "), expected));
    }
  });
}
