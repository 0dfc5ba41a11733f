// lockstep/parallel/wires/half_wire.h
//
// Gradients as 16-bit floats: half the bytes of float32. The communicator adds them up in
// float32 and rounds once.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {

class HalfWire final : public Wire {
 public:
  explicit HalfWire(at::ScalarType type) : type_(type) {}
  void start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) override;
  void finish(comm::Communicator& group) override;

 private:
  struct UnderWay {
    at::Tensor gradients, half;
    comm::Work work;
  };
  at::ScalarType type_;
  std::vector<at::Tensor> halves_;  // by bucket
  std::vector<UnderWay> under_way_;
};

}  // namespace lockstep::parallel
