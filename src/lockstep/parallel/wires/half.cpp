// Gradients as 16-bit floats: half the bytes of float32. The communicator adds them up in
// float32 and rounds once.
#include <utility>
#include <vector>

#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {
namespace {

class HalfWire final : public Wire {
 public:
  explicit HalfWire(at::ScalarType type) : type_(type) {}

  void start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) override {
    if (number >= halves_.size()) halves_.resize(number + 1);
    at::Tensor& half = halves_[number];
    if (!half.defined()) half = group.empty({gradients.numel()}, type_);
    half.copy_(gradients);
    under_way_.push_back({gradients, half, group.all_reduce_(half, comm::ReduceOp::Sum, kOnItsWay)});
  }

  void finish(comm::Communicator&) override {
    for (auto& [gradients, half, work] : under_way_) {
      work.wait();
      gradients.copy_(half);
    }
    under_way_.clear();
  }

 private:
  struct UnderWay {
    at::Tensor gradients, half;
    comm::Work work;
  };
  at::ScalarType type_;
  std::vector<at::Tensor> halves_;  // by bucket
  std::vector<UnderWay> under_way_;
};

const WireRegistry::Add bf16{
    "bf16", "Gradients as bfloat16: half the bytes, 8 bits of precision, range of float32",
    [](const Config&, const std::string&) { return std::make_unique<HalfWire>(at::kBFloat16); }};
const WireRegistry::Add fp16{"fp16",
                             "Gradients as float16: half the bytes, 11 bits of precision, infinite from 65520 on",
                             [](const Config&, const std::string&) { return std::make_unique<HalfWire>(at::kHalf); }};

}  // namespace
}  // namespace lockstep::parallel
