#include "lockstep/parallel/layers/made_input.h"

namespace lockstep::parallel {
namespace {

int& count() noexcept {
  thread_local int alive = 0;
  return alive;
}

}  // namespace

MadeInputsDropped::MadeInputsDropped() noexcept { ++count(); }
MadeInputsDropped::~MadeInputsDropped() { --count(); }
bool MadeInputsDropped::now() noexcept { return count() > 0; }

}  // namespace lockstep::parallel
