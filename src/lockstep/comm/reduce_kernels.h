// lockstep/comm/reduce_kernels.h
//
// The interface between reduce.cpp and its kernels, which are compiled once per
// instruction set. Plain types only: an inline function of a library, compiled
// for a newer instruction set, could be the copy that the linker keeps.
#pragma once

namespace lockstep::comm {

struct KernelJob {
  const void* const* inputs;
  const int* first_leaf;
  int input_count;
  int root_first;
  int root_count;
  void* const* outputs;
  int output_count;
  long count;
  double divisor;  // 0: no division
};
using Kernel = void (*)(const KernelJob&);

enum class KernelType : unsigned char {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Bool,
};
enum class KernelOp : unsigned char { Sum, Prod, Min, Max };

/// Elements to elements, elements to partials, partials to elements.
enum class KernelStages : unsigned char { Whole, First, Last };

using KernelTable = Kernel (*)(KernelType, KernelOp, KernelStages);
Kernel kernel_baseline(KernelType type, KernelOp op, KernelStages stages);
Kernel kernel_avx2(KernelType type, KernelOp op, KernelStages stages);
Kernel kernel_avx512(KernelType type, KernelOp op, KernelStages stages);

}  // namespace lockstep::comm
