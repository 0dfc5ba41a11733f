// lockstep/comm/types.h
//
// Words that every part of the communication layer shares.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace lockstep::comm {

/// Avg is a Sum divided once at the end. Min and Max propagate NaN. On bool, Sum
/// and Max are "or", Prod and Min are "and". Avg of integers is an error.
enum class ReduceOp : std::uint8_t { Sum, Avg, Prod, Min, Max };

enum class Collective : std::uint8_t {
  Barrier,
  AllReduce,
  ReduceScatter,
  ReduceUpdate,
  Reduce,
  Broadcast,
  AllGather,
  Gather,
  Scatter,
  AllToAll,
  Send,
  Recv,
};

/// Urgent messages pass bulk ones. Each lane keeps its own order.
enum class Lane : std::uint8_t { Urgent, Bulk };
inline constexpr int kLanes = 2;

const char* name_of(ReduceOp op) noexcept;
const char* name_of(Collective collective) noexcept;
const char* name_of(Lane lane) noexcept;
/// "float32", as NumPy and PyTorch print it.
const char* name_of(c10::ScalarType type) noexcept;

/// The type in which a reduction of `type` is accumulated: float32 for the half
/// types, `type` itself otherwise.
inline c10::ScalarType accumulate_type(c10::ScalarType type) noexcept {
  return type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16 ? c10::ScalarType::Float : type;
}

}  // namespace lockstep::comm
