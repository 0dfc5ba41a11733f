// Sums each bucket of gradients while the next one is computed, as training does.
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/profile/span.h"

using namespace lockstep;
using namespace lockstep::comm;

constexpr int kLayers = 6;
constexpr std::int64_t kWidth = 1024;  // a bucket of 4 MiB

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Runtime& runtime) {
    Communicator& world = runtime.world();
    const at::Tensor activations = at::full({256, kWidth}, (world.rank() + 1.0) / 256, at::kFloat);
    std::vector<at::Tensor> buckets;
    std::vector<Work> works;
    for (int layer = 0; layer < kLayers; ++layer) {
      // Memory that the other ranks map: the sum is made in place.
      at::Tensor bucket = world.empty({kWidth, kWidth}, at::kFloat);
      {
        const profile::Span span("backward", bucket.nbytes());
        at::matmul_out(bucket, activations.t(), at::full({256, kWidth}, layer + 1.0, at::kFloat));
      }
      // Returns at once; the communication thread carries it on.
      works.push_back(world.all_reduce_(bucket, ReduceOp::Sum, {.name = "gradients"}));
      buckets.push_back(bucket);
    }
    for (Work& work : works) work.wait();

    for (int layer = 0; layer < kLayers; ++layer) {
      const double wanted = (layer + 1.0) * world.size() * (world.size() + 1) / 2;
      const at::Tensor& bucket = buckets[static_cast<std::size_t>(layer)];
      if (!(bucket == wanted).all().item<bool>()) fail(Fault::Internal, fmt::format("layer {}: not {}", layer, wanted));
    }
    if (world.rank() == 0) {
      fmt::print("{} buckets of {} MiB summed over {} ranks while the next was computed\n", kLayers,
                 (kWidth * kWidth * 4) >> 20, world.size());
    }
  });
}
