#include "lockstep/models/continuation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "lockstep/core/error.h"

namespace lockstep::models {

at::Tensor Continuation::after(std::span<const std::int64_t> tokens) {
  if (tokens.empty()) fail(Fault::Internal, "a text of no tokens does not go on");
  const at::NoGradGuard no_gradients;
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  const auto most = static_cast<std::size_t>(model_.context());
  if (most > 0 && text_.size() > most) {
    text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(most));
    read_ = 0;
    past_ = {};
  }
  at::Tensor scores;
  while (read_ < text_.size()) {
    const std::size_t count = read_ == 0 ? text_.size() : 1;
    const at::Tensor next = at::from_blob(&text_[read_], {1, static_cast<std::int64_t>(count)}, at::kLong).clone();
    scores = model_.continued(next, past_);
    read_ += count;
  }
  return scores.select(0, 0);
}

}  // namespace lockstep::models
