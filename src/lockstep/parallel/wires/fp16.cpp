#include "lockstep/parallel/wires/half_wire.h"

namespace lockstep::parallel {
namespace {

const WireRegistry::Add registered{
    "fp16", "Gradients as float16: half the bytes, 11 bits of precision, infinite from 65520 on",
    [](const Config&, const std::string&) { return std::make_unique<HalfWire>(at::kHalf); }};

}  // namespace
}  // namespace lockstep::parallel
