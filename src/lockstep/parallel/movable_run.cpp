#include "lockstep/parallel/movable_run.h"

#include <cstddef>

#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>

namespace lockstep::parallel {
namespace {

// Older versions of torch cannot take the message back; there a read of what is not there ends the process.
template <class Storage>
constexpr bool kGuards = requires(Storage& storage) { storage.clear_data_ptr_access_error_msg_(); };

template <class Storage>
void guard(Storage& storage) {
  if constexpr (kGuards<Storage>) {
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
        "these weights are on no rank as a whole (parallel.zero = 3): they are there only while the link that uses "
        "them computes");
  }
}

template <class Storage>
void unguard(Storage& storage) {
  if constexpr (kGuards<Storage>) storage.clear_data_ptr_access_error_msg_();
}

}  // namespace

MovableRun::MovableRun(std::int64_t elements, at::ScalarType type, c10::Device device)
    : tensor_(at::empty({0}, at::TensorOptions(type).device(device))) {
  const c10::Storage without_memory(c10::Storage::use_byte_size_t(),
                                    static_cast<std::size_t>(elements) * c10::elementSize(type),
                                    at::DataPtr(nullptr, device), /*allocator=*/nullptr, /*resizable=*/false);
  tensor_.set_(without_memory, 0, {elements}, {1});
  guard(*tensor_.storage().unsafeGetStorageImpl());
}

void MovableRun::put_in(const at::Tensor& memory) {
  unguard(*tensor_.storage().unsafeGetStorageImpl());
  tensor_.storage().set_data_ptr_noswap(at::DataPtr(memory.mutable_data_ptr(), tensor_.device()));
}

void MovableRun::take_out() {
  unguard(*tensor_.storage().unsafeGetStorageImpl());
  tensor_.storage().set_data_ptr_noswap(at::DataPtr(nullptr, tensor_.device()));
  guard(*tensor_.storage().unsafeGetStorageImpl());
}

}  // namespace lockstep::parallel
