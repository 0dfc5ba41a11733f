// lockstep/core/handle.h
//
// Sole owner of a C library's handle. Traits give the raw type, the empty value
// and the release call; a defaulted move would release twice.
#pragma once

#include <unistd.h>

#include <utility>

namespace lockstep {

template <class Traits>
class Handle {
 public:
  using Raw = typename Traits::Raw;

  Handle() noexcept : raw_(Traits::empty()) {}
  explicit Handle(Raw raw) noexcept : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, Traits::empty())) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_ != Traits::empty()) Traits::release(raw_);
  }

  Raw get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != Traits::empty(); }
  /// Gives the handle away; the caller releases it.
  Raw take() noexcept { return std::exchange(raw_, Traits::empty()); }
  void reset() noexcept { const Handle released(take()); }

 private:
  Raw raw_;
};

struct FileDescriptorTraits {
  using Raw = int;
  static Raw empty() noexcept { return -1; }
  static void release(Raw raw) noexcept { ::close(raw); }
};
using FileDescriptor = Handle<FileDescriptorTraits>;

}  // namespace lockstep
