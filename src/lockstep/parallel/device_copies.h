// lockstep/parallel/device_copies.h
//
// Copies between the memory of a host and that of its GPU which wait for themselves alone: they go
// beside what the GPU computes, on a stream of their own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace lockstep::parallel {

class DeviceCopies {
 public:
  explicit DeviceCopies(c10::Device device);

  /// It is there when this returns; its memory goes back by release().
  at::Tensor to_device(const at::Tensor& values) const;
  /// Others get the memory once the GPU has done what it was asked for until now.
  void release(at::Tensor values) const;

  /// What the GPU was asked for until now.
  c10::Event asked() const;
  /// Copies what is in `from` after that.
  void to_host(const at::Tensor& to, const at::Tensor& from, const c10::Event& after) const;

 private:
  c10::Stream computing() const;

  c10::Device device_;
  c10::Stream copying_;
};

}  // namespace lockstep::parallel
