// lockstep/comm/update.h
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::comm {

/// What the owner of elements makes of their reduction, see Communicator::reduce_update_: `reduced` are those of
/// the elements [first, first + count), in the tensor's type.
using Update = std::function<void(std::int64_t first, std::int64_t count, const void* reduced)>;

}  // namespace lockstep::comm
