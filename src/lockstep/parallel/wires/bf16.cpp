#include "lockstep/parallel/wires/half_wire.h"

namespace lockstep::parallel {
namespace {

const WireRegistry::Add registered{
    "bf16", "Gradients as bfloat16: half the bytes, 8 bits of precision, range of float32",
    [](const Config&, const std::string&) { return std::make_unique<HalfWire>(at::kBFloat16); }};

}  // namespace
}  // namespace lockstep::parallel
