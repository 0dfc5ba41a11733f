#include "lockstep/parallel/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep::parallel {

DeviceCopies::DeviceCopies(c10::Device device)
    : device_(device), copying_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

c10::Stream DeviceCopies::computing() const { return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_); }

at::Tensor DeviceCopies::to_device(const at::Tensor& values) const {
  const c10::StreamGuard beside(copying_);
  return values.to(device_);
}

void DeviceCopies::release(at::Tensor values) const { values.record_stream(computing()); }

c10::Event DeviceCopies::asked() const {
  c10::Event event(device_.type());
  event.record(computing());
  return event;
}

void DeviceCopies::to_host(const at::Tensor& to, const at::Tensor& from, const c10::Event& after) const {
  const c10::StreamGuard beside(copying_);
  after.block(copying_);
  to.copy_(from);
}

}  // namespace lockstep::parallel
