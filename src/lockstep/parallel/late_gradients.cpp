#include "lockstep/parallel/late_gradients.h"

namespace lockstep::parallel {
namespace {

LateGradients*& current() noexcept {
  thread_local LateGradients* late = nullptr;
  return late;
}

}  // namespace

LateGradients* LateGradients::now() noexcept { return current(); }
LateGradients::Deferral::Deferral(LateGradients& to) noexcept { current() = &to; }
LateGradients::Deferral::~Deferral() { current() = nullptr; }

}  // namespace lockstep::parallel
