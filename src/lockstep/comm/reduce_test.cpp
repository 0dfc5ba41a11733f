// Every kernel of every instruction set this processor has, against plain loops and
// against libtorch: the same bits from all of them.
#include "lockstep/comm/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/comm/reduce_kernels.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

struct InstructionSet {
  const char* name;
  KernelTable kernels;
};

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets = {{"baseline", kernel_baseline}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v3")) sets.push_back({"avx2", kernel_avx2});
  if (__builtin_cpu_supports("x86-64-v4")) sets.push_back({"avx512", kernel_avx512});
#endif
  return sets;
}

template <class T, KernelType kernel_type>
struct Case {
  using Element = T;
  using Accumulator = std::conditional_t<std::is_same_v<T, at::Half> || std::is_same_v<T, at::BFloat16>, float, T>;
  static constexpr KernelType kType = kernel_type;
};
using Cases = ::testing::Types<
    Case<double, KernelType::Float64>, Case<float, KernelType::Float32>, Case<at::Half, KernelType::Float16>,
    Case<at::BFloat16, KernelType::BFloat16>, Case<std::int8_t, KernelType::Int8>,
    Case<std::int16_t, KernelType::Int16>, Case<std::int32_t, KernelType::Int32>, Case<std::int64_t, KernelType::Int64>,
    Case<std::uint8_t, KernelType::UInt8>, Case<std::uint16_t, KernelType::UInt16>,
    Case<std::uint32_t, KernelType::UInt32>, Case<std::uint64_t, KernelType::UInt64>, Case<bool, KernelType::Bool>>;

template <class T>
constexpr bool kFloating = !std::is_integral_v<T>;

/// One step of a reduction, as plainly as it can be said.
template <class A>
A combine(KernelOp op, A a, A b) {
  if constexpr (std::is_same_v<A, bool>) {
    return op == KernelOp::Sum || op == KernelOp::Max ? a || b : a && b;
  } else if constexpr (std::is_integral_v<A>) {
    // Integers wrap: computed modulo 2^64, then cut.
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (op) {
      case KernelOp::Sum: return static_cast<A>(x + y);
      case KernelOp::Prod: return static_cast<A>(x * y);
      case KernelOp::Min: return b < a ? b : a;
      case KernelOp::Max: return b > a ? b : a;
    }
  } else {
    if (op == KernelOp::Sum) return a + b;
    if (op == KernelOp::Prod) return a * b;
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (op == KernelOp::Min) return a < b ? a : b;
    return a > b ? a : b;
  }
  return a;
}

template <class A>
A tree_of(KernelOp op, TreeNode node, const std::vector<A>& leaves) {
  if (node.leaf()) return leaves[static_cast<std::size_t>(node.first)];
  return combine<A>(op, tree_of(op, node.left(), leaves), tree_of(op, node.right(), leaves));
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
bool is_nan(const T& value) {
  if constexpr (kFloating<T>)
    return std::isnan(static_cast<double>(value));
  else
    return false;
}

template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 2 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    // Magnitudes far apart, so that another order of adding shows; now and then a special value.
    const double specials[] = {0.0, -0.0, std::numeric_limits<double>::infinity(), 1e-7, 6e-8, 65504.0, 65520.0};
    if (random() % 16 == 0) return static_cast<T>(static_cast<float>(specials[random() % std::size(specials)]));
    const double mantissa = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    return static_cast<T>(static_cast<float>(std::ldexp(mantissa, static_cast<int>(random() % 24) - 12)));
  }
}

// std::vector<bool> has no memory of bools.
template <class T>
struct Buffer {
  explicit Buffer(std::size_t count) : size(count), values(new T[count + 1]()) {}
  T* data() const { return values.get(); }
  std::size_t size;
  std::unique_ptr<T[]> values;
};

constexpr KernelOp kOps[] = {KernelOp::Sum, KernelOp::Prod, KernelOp::Min, KernelOp::Max};
constexpr int kLeaves[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
// Below, at and above a vector and a block of the kernels.
constexpr long kLengths[] = {0, 1, 7, 33, 2049, 8200};

template <class Case>
class Kernels : public ::testing::Test {
 protected:
  using T = typename Case::Element;
  using A = typename Case::Accumulator;

  static std::vector<Buffer<T>> random_inputs(int leaves, long length, bool with_nan, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<Buffer<T>> inputs;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      inputs.emplace_back(static_cast<std::size_t>(length));
      for (long i = 0; i < length; ++i) {
        inputs.back().data()[i] = random_value<T>(random);
        if constexpr (kFloating<T>) {
          if (with_nan && random() % 64 == 0) inputs.back().data()[i] = std::numeric_limits<T>::quiet_NaN();
        }
      }
    }
    return inputs;
  }

  static std::vector<T> reference(KernelOp op, const std::vector<Buffer<T>>& inputs, double divisor) {
    std::vector<T> result;
    const int leaves = static_cast<int>(inputs.size());
    for (std::size_t i = 0; i < inputs[0].size; ++i) {
      std::vector<A> values;
      for (const auto& input : inputs) values.push_back(static_cast<A>(input.data()[i]));
      A value = tree_of<A>(op, {0, leaves}, values);
      if constexpr (kFloating<T>) {
        if (divisor != 0) value = value / static_cast<A>(divisor);
      }
      result.push_back(static_cast<T>(value));
    }
    return result;
  }

  static void expect_same(const std::vector<T>& wanted, const T* actual, const std::string& what) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const T expected = wanted[i];
      if (same_bits<T>(expected, actual[i]) || (is_nan<T>(expected) && is_nan<T>(actual[i]))) continue;
      ADD_FAILURE() << what << ", element " << i << ": " << static_cast<double>(actual[i]) << " instead of "
                    << static_cast<double>(expected);
      return;
    }
  }
};
TYPED_TEST_SUITE(Kernels, Cases);

TYPED_TEST(Kernels, GiveTheTreesBitsOnEveryInstructionSet) {
  using Element = typename TypeParam::Element;
  for (const auto op : kOps) {
    for (const int leaves : kLeaves) {
      for (const long length : kLengths) {
        const auto count = static_cast<std::size_t>(length);
        const auto inputs = this->random_inputs(leaves, length, op == KernelOp::Min || op == KernelOp::Max, 17);
        std::vector<int> first_leaf(inputs.size());
        std::iota(first_leaf.begin(), first_leaf.end(), 0);
        for (const double divisor : {0.0, static_cast<double>(leaves)}) {
          if (divisor != 0 && (op != KernelOp::Sum || !kFloating<Element>)) continue;
          const auto wanted = this->reference(op, inputs, divisor);
          Buffer<Element> baseline(count);
          for (const auto& set : instruction_sets()) {
            const std::string what = std::string(set.name) + ", op " + std::to_string(static_cast<int>(op)) + ", " +
                                     std::to_string(leaves) + " leaves of " + std::to_string(length);
            const Kernel kernel = set.kernels(TypeParam::kType, op, KernelStages::Whole);
            Buffer<Element> a(count), b(count), c(count), in_place(count);
            std::copy_n(inputs.back().data(), length, in_place.data());
            std::vector<const void*> in;
            for (const auto& input : inputs) in.push_back(input.data());
            in.back() = in_place.data();
            // Kernels for two inputs have a path of their own for up to two outputs.
            void* const out[] = {a.data(), b.data(), c.data()};
            kernel({in.data(), first_leaf.data(), leaves, 0, leaves, out, 3, length, divisor});
            this->expect_same(wanted, c.data(), what);
            kernel({in.data(), first_leaf.data(), leaves, 0, leaves, out, 2, length, divisor});
            this->expect_same(wanted, a.data(), what);
            this->expect_same(wanted, b.data(), what);
            void* const last_input = in_place.data();
            kernel({in.data(), first_leaf.data(), leaves, 0, leaves, &last_input, 1, length, divisor});
            this->expect_same(wanted, in_place.data(), what + " in place");
            if (set.kernels == kernel_baseline) std::copy_n(a.data(), length, baseline.data());
            EXPECT_EQ(std::memcmp(baseline.data(), a.data(), count * sizeof(Element)), 0)
                << what << ": not the bits of baseline";
          }
        }
      }
    }
  }
}

// As over several hosts: each reduces the nodes it holds to partials, one combines them.
TYPED_TEST(Kernels, PartialsGiveTheSameBitsAsTheWhole) {
  using Element = typename TypeParam::Element;
  using Accumulator = typename TypeParam::Accumulator;
  constexpr long kLength = 2049;
  for (const auto op : kOps) {
    for (const int leaves : {2, 3, 5, 8, 13}) {
      const auto inputs = this->random_inputs(leaves, kLength, false, 23);
      const double divisor = op == KernelOp::Sum && kFloating<Element> ? leaves : 0;
      const auto wanted = this->reference(op, inputs, divisor);
      for (const auto& set : instruction_sets()) {
        const TreeNode root{0, leaves};
        std::vector<Buffer<Accumulator>> partials;
        std::vector<const void*> parts;
        std::vector<int> part_leaf;
        for (const TreeNode node : {root.left(), root.right()}) {
          partials.emplace_back(kLength);
          std::vector<const void*> in;
          std::vector<int> first_leaf;
          for (int leaf = node.first; leaf < node.end(); ++leaf) {
            in.push_back(inputs[static_cast<std::size_t>(leaf)].data());
            first_leaf.push_back(leaf);
          }
          void* out = partials.back().data();
          const KernelJob job{in.data(), first_leaf.data(), node.count, node.first, node.count, &out, 1, kLength, 0};
          set.kernels(TypeParam::kType, op, KernelStages::First)(job);
          parts.push_back(out);
          part_leaf.push_back(node.first);
        }
        Buffer<Element> result(kLength);
        void* out = result.data();
        const KernelJob job{parts.data(), part_leaf.data(), 2, 0, leaves, &out, 1, kLength, divisor};
        set.kernels(TypeParam::kType, op, KernelStages::Last)(job);
        this->expect_same(wanted, result.data(), std::string(set.name) + ", " + std::to_string(leaves) + " leaves");
      }
    }
  }
}

TEST(Reduce, IntegersWrap) {
  for (const auto& set : instruction_sets()) {
    const std::int8_t a = 127, b = 1;
    const void* in[] = {&a, &b};
    const int leaves[] = {0, 1};
    std::int8_t result = 0;
    void* out = &result;
    set.kernels(KernelType::Int8, KernelOp::Sum, KernelStages::Whole)({in, leaves, 2, 0, 2, &out, 1, 1, 0});
    EXPECT_EQ(result, -128) << set.name;
    const std::int64_t least = std::numeric_limits<std::int64_t>::min(), minus_one = -1;
    const void* in64[] = {&least, &minus_one};
    std::int64_t result64 = 0;
    out = &result64;
    set.kernels(KernelType::Int64, KernelOp::Sum, KernelStages::Whole)({in64, leaves, 2, 0, 2, &out, 1, 1, 0});
    EXPECT_EQ(result64, std::numeric_limits<std::int64_t>::max()) << set.name;
    set.kernels(KernelType::Int64, KernelOp::Prod, KernelStages::Whole)({in64, leaves, 2, 0, 2, &out, 1, 1, 0});
    EXPECT_EQ(result64, least) << set.name;
    const std::uint16_t most = 0xffff;
    const void* in16[] = {&most, &most};
    std::uint16_t result16 = 0;
    out = &result16;
    set.kernels(KernelType::UInt16, KernelOp::Prod, KernelStages::Whole)({in16, leaves, 2, 0, 2, &out, 1, 1, 0});
    EXPECT_EQ(result16, 1) << set.name << ": 0xffff squared overflows an int";
  }
}

TEST(Reduce, NaNGoesThroughEveryOperation) {
  for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
    for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      for (int bearer = 0; bearer < 5; ++bearer) {
        std::vector<at::Tensor> tensors;
        std::vector<const void*> inputs;
        for (int leaf = 0; leaf < 5; ++leaf) {
          tensors.push_back(at::ones({70}, at::TensorOptions(type)));
          if (leaf == bearer) tensors.back()[69] = std::numeric_limits<double>::quiet_NaN();
          inputs.push_back(tensors.back().data_ptr());
        }
        at::Tensor result = at::empty({70}, at::TensorOptions(type));
        void* out = result.data_ptr();
        reduce_leaves({type, op, 5}, inputs, {&out, 1}, 70);
        EXPECT_TRUE(std::isnan(result[69].item<double>())) << name_of(op) << " " << name_of(type) << " " << bearer;
        EXPECT_EQ(result[68].item<double>(), op == ReduceOp::Sum ? 5 : 1);
      }
    }
  }
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(check_reducible(at::kInt, ReduceOp::Avg), Error);
  EXPECT_THROW(check_reducible(at::kBool, ReduceOp::Avg), Error);
  EXPECT_THROW(check_reducible(at::kComplexFloat, ReduceOp::Sum), Error);
  EXPECT_NO_THROW(check_reducible(at::kBFloat16, ReduceOp::Avg));
  EXPECT_NO_THROW(check_reducible(at::kBool, ReduceOp::Sum));
}

// ---- conversions of the half types, against libtorch ---------------------------------------------

class HalfTypes : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  KernelType kernel_type() const { return GetParam() == at::kHalf ? KernelType::Float16 : KernelType::BFloat16; }

  /// One input through a kernel: only the conversion is left.
  void convert(KernelTable kernels, KernelStages stages, const at::Tensor& from, const at::Tensor& to) const {
    const void* in = from.data_ptr();
    void* out = to.data_ptr();
    const int leaf = 0;
    kernels(kernel_type(), KernelOp::Sum, stages)({&in, &leaf, 1, 0, 1, &out, 1, from.numel(), 0});
  }
  /// All 65536 bit patterns.
  at::Tensor patterns() const { return at::arange(0, 65536, at::kInt).to(at::kShort).view(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfTypes, ::testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(HalfTypes, EveryPatternBecomesTheSameFloat) {
  const at::Tensor halves = patterns();
  const at::Tensor wanted = halves.to(at::kFloat);
  for (const auto& set : instruction_sets()) {
    at::Tensor floats = at::empty({65536}, at::kFloat);
    convert(set.kernels, KernelStages::First, halves, floats);
    // A signalling NaN may become a quiet one.
    const at::Tensor equal = (floats.view(at::kInt) == wanted.view(at::kInt)) | (floats.isnan() & wanted.isnan());
    EXPECT_TRUE(equal.all().item<bool>()) << set.name << ": pattern " << (~equal).nonzero()[0].item<int>();
    EXPECT_TRUE(at::equal(floats.isnan(), wanted.isnan())) << set.name;
  }
}

TEST_P(HalfTypes, FloatsRoundToTheSameHalf) {
  // Every half, the middle between it and the next, the floats beside those, and any bits.
  const at::Tensor exact = patterns().to(at::kFloat).view(at::kInt);
  const int step = GetParam() == at::kHalf ? 1 << 13 : 1 << 16;
  const at::Tensor bits =
      at::cat({exact, exact + step / 2, exact + step / 2 - 1, exact + step / 2 + 1, exact + 1, exact - 1,
               at::randint(std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), {1 << 20}, at::kLong)
                   .to(at::kInt)});
  const at::Tensor floats = bits.view(at::kFloat);
  const at::Tensor wanted = floats.to(GetParam());
  at::Tensor first;
  for (const auto& set : instruction_sets()) {
    at::Tensor halves = at::empty({floats.numel()}, at::TensorOptions(GetParam()));
    convert(set.kernels, KernelStages::Last, floats, halves);
    const at::Tensor equal = (halves.view(at::kShort) == wanted.view(at::kShort)) | (floats.isnan() & halves.isnan());
    EXPECT_TRUE(equal.all().item<bool>()) << set.name << ": float bits " << bits.index({~equal})[0].item<int>();
    if (!first.defined()) first = halves;
    EXPECT_TRUE(at::equal(halves.view(at::kShort), first.view(at::kShort)))
        << set.name << ": other bits than baseline, also of NaN";
  }
}

}  // namespace
}  // namespace lockstep::comm
