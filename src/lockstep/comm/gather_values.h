// lockstep/comm/gather_values.h
//
// Numbers and plain structs of all ranks, of which each may bring differently many.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// One rank's behind the other's, on every rank. A collective.
template <class T>
std::vector<T> gather_values(Communicator& group, std::span<const T> own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const std::string& bytes : group.gather_bytes({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
    if (bytes.empty()) continue;
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(T));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

template <class T>
std::vector<T> gather_values(Communicator& group, const std::vector<T>& own) {
  return gather_values(group, std::span<const T>(own));
}

/// One of each rank, by rank: in one exchange, as nobody has to say how many. A collective.
template <class T>
std::vector<T> gather_one_each(Communicator& group, const T& own, const char* name) {
  static_assert(std::is_trivially_copyable_v<T>);
  at::Tensor mine = at::empty({sizeof(T)}, at::kByte), all = at::empty({group.size(), sizeof(T)}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), &own, sizeof(T));
  group.all_gather(all, mine, {}, {.name = name}).wait();
  std::vector<T> result(static_cast<std::size_t>(group.size()));
  std::memcpy(result.data(), all.const_data_ptr(), result.size() * sizeof(T));
  return result;
}

}  // namespace lockstep::comm
