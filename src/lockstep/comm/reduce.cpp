#include "lockstep/comm/reduce.h"

#include <array>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "lockstep/comm/instruction_set.h"
#include "lockstep/comm/reduce_kernels.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

std::optional<KernelType> kernel_type(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Double: return KernelType::Float64;
    case c10::ScalarType::Float: return KernelType::Float32;
    case c10::ScalarType::Half: return KernelType::Float16;
    case c10::ScalarType::BFloat16: return KernelType::BFloat16;
    case c10::ScalarType::Char: return KernelType::Int8;
    case c10::ScalarType::Short: return KernelType::Int16;
    case c10::ScalarType::Int: return KernelType::Int32;
    case c10::ScalarType::Long: return KernelType::Int64;
    case c10::ScalarType::Byte: return KernelType::UInt8;
    case c10::ScalarType::UInt16: return KernelType::UInt16;
    case c10::ScalarType::UInt32: return KernelType::UInt32;
    case c10::ScalarType::UInt64: return KernelType::UInt64;
    case c10::ScalarType::Bool: return KernelType::Bool;
    default: return std::nullopt;
  }
}

KernelOp kernel_op(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg: return KernelOp::Sum;
    case ReduceOp::Prod: return KernelOp::Prod;
    case ReduceOp::Min: return KernelOp::Min;
    case ReduceOp::Max: return KernelOp::Max;
  }
  return KernelOp::Sum;
}

constexpr int kMaxTypes = 13;
constexpr int kMaxOps = 4;
constexpr int kMaxStages = 3;
using Kernels = std::array<std::array<std::array<Kernel, kMaxStages>, kMaxOps>, kMaxTypes>;

const Kernels& kernels() {
  static const Kernels table = [] {
    const KernelTable best = by_instruction_set(kernel_baseline, kernel_avx2, kernel_avx512);
    Kernels result{};
    for (int type = 0; type < kMaxTypes; ++type) {
      for (int op = 0; op < kMaxOps; ++op) {
        for (int stages = 0; stages < kMaxStages; ++stages) {
          result[type][op][stages] =
              best(static_cast<KernelType>(type), static_cast<KernelOp>(op), static_cast<KernelStages>(stages));
        }
      }
    }
    return result;
  }();
  return table;
}

constexpr int kMaxLeaves = 4096;
constexpr auto kLeafNumbers = [] {
  std::array<int, kMaxLeaves> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}();

}  // namespace

void check_reducible(c10::ScalarType type, ReduceOp op) {
  if (!kernel_type(type)) {
    fail(Fault::Usage, fmt::format("a tensor of type {} cannot be reduced; convert it to a real or integer type first",
                                   name_of(type)));
  }
  if (op == ReduceOp::Avg && !c10::isFloatingType(type)) {
    fail(Fault::Usage,
         fmt::format("avg of {} is not defined; use sum, or convert the tensor to a floating type", name_of(type)));
  }
}

void reduce_tree(const TreeReduction& reduction, TreeNode root, std::span<const int> first_leaf,
                 std::span<const void* const> inputs, Stage input_stage, std::span<void* const> outputs,
                 Stage output_stage, std::int64_t count) {
  const bool finished = output_stage == Stage::Elements;
  auto type = reduction.type;
  KernelStages stages = KernelStages::Whole;
  if (input_stage == Stage::Partials && !finished) {
    type = accumulate_type(type);  // partials into partials: a whole reduction in the wider type
  } else if (input_stage == Stage::Partials) {
    stages = KernelStages::Last;
  } else if (!finished) {
    stages = KernelStages::First;
  }
  const KernelJob job{inputs.data(),
                      first_leaf.data(),
                      static_cast<int>(inputs.size()),
                      root.first,
                      root.count,
                      outputs.data(),
                      static_cast<int>(outputs.size()),
                      static_cast<long>(count),
                      finished && reduction.op == ReduceOp::Avg ? static_cast<double>(reduction.leaves) : 0.0};
  kernels()[static_cast<int>(*kernel_type(type))][static_cast<int>(kernel_op(reduction.op))][static_cast<int>(stages)](
      job);
}

std::span<const int> leaf_numbers(int count) { return std::span(kLeafNumbers).first(static_cast<std::size_t>(count)); }

void reduce_leaves(const TreeReduction& reduction, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::int64_t count) {
  const int leaves = static_cast<int>(inputs.size());
  reduce_tree(reduction, {0, leaves}, leaf_numbers(leaves), inputs, Stage::Elements, outputs, Stage::Elements, count);
}

}  // namespace lockstep::comm
