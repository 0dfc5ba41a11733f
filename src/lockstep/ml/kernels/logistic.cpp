#include "lockstep/ml/kernels/logistic.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/logistic.cpp"
// clang-format off: what is compiled once per instruction set comes behind the first
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows that are worked on together: of some tens of columns they stay in the first cache from margins to gradient.
constexpr std::int64_t kRows = 128;
// A margin is summed in eight lanes, of which four are left when it is stored.
constexpr std::int64_t kParts = 4;
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;

using Vector = hn::Vec<Lanes>;

/// Values of some rows, each [outputs, kRows] or [kRows].
struct Work {
  double* parts;      // [outputs, kRows, kParts] of margins
  double* residuals;  // [outputs, kRows]: margins, and then what the gradient takes of each row
  double* weights;    // [kRows], 0 beyond the last row
  double* own;        // [kRows]: the margin of the row's own class; of one output its class

  static std::int64_t doubles(std::int64_t outputs) { return outputs * kRows * (kParts + 1) + 2 * kRows; }
  Work(double* memory, std::int64_t outputs)
      : parts(memory),
        residuals(parts + outputs * kRows * kParts),
        weights(residuals + outputs * kRows),
        own(weights + kRows) {}
};

/// Adds the upper half of eight lanes to the lower one.
HWY_INLINE void store_parts(const Vector* lanes, double* parts) {
#if HWY_TARGET <= HWY_AVX3  // eight lanes are one vector
  const hn::Half<Lanes> half;
  hn::Store(hn::Add(hn::LowerHalf(half, lanes[0]), hn::UpperHalf(half, lanes[0])), half, parts);
#else
  for (std::int64_t v = 0; v < kVectors / 2; ++v) {
    hn::Store(hn::Add(lanes[v], lanes[v + kVectors / 2]), Lanes(), parts + v * kLanes);
  }
#endif
}

/// Products of kTile rows with the coefficients of kOutputs outputs.
template <std::int64_t kTile, std::int64_t kOutputs, class T>
HWY_INLINE void multiply_tile(const T* HWY_RESTRICT x, const LogisticPoint& point, const double* HWY_RESTRICT coef,
                              double* HWY_RESTRICT parts) {
  const Lanes tag;
  const std::int64_t columns = point.columns, stride = padded(columns);
  Vector lanes[kTile][kOutputs][kVectors];
  for (auto& row : lanes) {
    for (auto& output : row) {
      for (auto& lane : output) lane = hn::Zero(tag);
    }
  }
  const auto add = [&](std::int64_t column, std::int64_t v, const auto& load_row) HWY_ATTR {
    Vector c[kOutputs];
    for (std::int64_t output = 0; output < kOutputs; ++output) c[output] = load(coef + output * stride + column);
    for (std::int64_t row = 0; row < kTile; ++row) {
      const Vector values = load_row(x + row * columns + column);
      for (std::int64_t output = 0; output < kOutputs; ++output) {
        lanes[row][output][v] = hn::MulAdd(values, c[output], lanes[row][output][v]);
      }
    }
  };
  std::int64_t column = 0;
  for (; column + 8 <= columns; column += 8) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      add(column + v * kLanes, v, [](const T* here) HWY_ATTR { return load(here); });
    }
  }
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const std::int64_t left = columns - column - v * kLanes;
    if (left <= 0) break;
    add(column + v * kLanes, v, [&](const T* here) HWY_ATTR { return load_some(here, std::min(left, kLanes)); });
  }
  for (std::int64_t row = 0; row < kTile; ++row) {
    for (std::int64_t output = 0; output < kOutputs; ++output) {
      store_parts(lanes[row][output], parts + (output * kRows + row) * kParts);
    }
  }
}

template <std::int64_t kOutputs, class T>
HWY_INLINE void multiply_rows(const T* x, std::int64_t rows, const LogisticPoint& point, std::int64_t output,
                              double* parts) {
  constexpr std::int64_t kTile = kManyRegisters ? 4 : 2;
  const double* coef = point.coef + output * padded(point.columns);
  double* own = parts + output * kRows * kParts;
  std::int64_t row = 0;
  for (; row + kTile <= rows; row += kTile) {
    multiply_tile<kTile, kOutputs>(x + row * point.columns, point, coef, own + row * kParts);
  }
  for (; row < rows; ++row) multiply_tile<1, kOutputs>(x + row * point.columns, point, coef, own + row * kParts);
}

template <class T>
HWY_INLINE void make_margins(const T* x, std::int64_t rows, const LogisticPoint& point, const Work& work) {
  const Lanes tag;
  constexpr std::int64_t kAtOnce = kManyRegisters ? 4 : 2;
  std::int64_t output = 0;
  for (; output + kAtOnce <= point.outputs; output += kAtOnce) {
    multiply_rows<kAtOnce>(x, rows, point, output, work.parts);
  }
  for (; output < point.outputs; ++output) multiply_rows<1>(x, rows, point, output, work.parts);
  for (output = 0; output < point.outputs; ++output) {
    double* parts = work.parts + output * kRows * kParts;
    // Rows beyond the last weigh nothing, but must be numbers.
    std::fill(parts + rows * kParts, parts + (rows + 7) / 8 * 8 * kParts, 0.0);
    const Vector intercept = hn::Set(tag, point.intercept[output]);
    for (std::int64_t row = 0; row < rows; row += kLanes) {
      Vector a, b, c, d;
      hn::LoadInterleaved4(tag, parts + row * kParts, a, b, c, d);
      const Vector margin = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, d)), intercept);
      hn::Store(margin, tag, work.residuals + output * kRows + row);
    }
  }
}

/// Eight lanes of sums on every processor, whose order is the same.
class LossLanes {
 public:
  HWY_INLINE LossLanes() {
    for (auto& lane : lanes_) lane = hn::Zero(Lanes());
  }
  HWY_INLINE void add(std::int64_t row, Vector weight, Vector loss) {
    Vector& lane = lanes_[row % 8 / kLanes];
    lane = hn::MulAdd(weight, loss, lane);
  }
  HWY_INLINE double sum() const {
    HWY_ALIGN double lanes[8];
    for (std::int64_t v = 0; v < kVectors; ++v) hn::Store(lanes_[v], Lanes(), lanes + v * kLanes);
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }

 private:
  Vector lanes_[kVectors];
};

/// Of one output: its margins become residuals, weight · (probability - class).
HWY_INLINE void tell_two_apart(std::int64_t rows, const Work& work, double* probabilities, LossLanes& losses) {
  const Lanes tag;
  const Vector one = hn::Set(tag, 1.0), zero = hn::Zero(tag);
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    const Vector margin = hn::Load(tag, work.residuals + row), is_one = hn::Load(tag, work.own + row);
    const Vector weight = hn::Load(tag, work.weights + row);
    const Vector small = hn::Exp(tag, hn::Neg(hn::Abs(margin)));
    const Vector larger = hn::Div(one, hn::Add(one, small)), smaller = hn::Mul(small, larger);
    const auto positive = hn::Ge(margin, zero);
    const Vector probability = hn::IfThenElse(positive, larger, smaller);
    const Vector of_other = hn::IfThenElse(positive, smaller, larger);
    losses.add(row, weight, hn::Add(hn::Log1p(tag, small), hn::NegMulAdd(is_one, margin, hn::Max(margin, zero))));
    // 1 - probability would lose the digits of rows that are nearly sure.
    const Vector residual = hn::IfThenElse(hn::Gt(is_one, zero), hn::Neg(of_other), probability);
    hn::Store(hn::Mul(weight, residual), tag, work.residuals + row);
    if (probabilities != nullptr) hn::StoreU(probability, tag, probabilities + row);
  }
}

/// Of several outputs: margins become weight · probability.
HWY_INLINE void tell_apart(std::int64_t rows, std::int64_t outputs, const Work& work, double* probabilities,
                           std::int64_t stride, LossLanes& losses) {
  const Lanes tag;
  const auto of_output = [&](std::int64_t output, std::int64_t row) { return work.residuals + output * kRows + row; };
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    Vector largest = hn::Load(tag, of_output(0, row));
    for (std::int64_t output = 1; output < outputs; ++output) {
      largest = hn::Max(largest, hn::Load(tag, of_output(output, row)));
    }
    Vector sum = hn::Zero(tag);
    for (std::int64_t output = 0; output < outputs; ++output) {
      const Vector power = hn::Exp(tag, hn::Sub(hn::Load(tag, of_output(output, row)), largest));
      hn::Store(power, tag, of_output(output, row));
      sum = hn::Add(sum, power);
    }
    const Vector weight = hn::Load(tag, work.weights + row), share = hn::Div(hn::Set(tag, 1.0), sum);
    losses.add(row, weight, hn::Add(hn::Log(tag, sum), hn::Sub(largest, hn::Load(tag, work.own + row))));
    for (std::int64_t output = 0; output < outputs; ++output) {
      const Vector probability = hn::Mul(hn::Load(tag, of_output(output, row)), share);
      hn::Store(hn::Mul(weight, probability), tag, of_output(output, row));
      if (probabilities != nullptr) hn::StoreU(probability, tag, probabilities + output * stride + row);
    }
  }
}

/// Adds the residuals of kOutputs outputs times kWide vectors of columns, over all rows.
template <std::int64_t kOutputs, std::int64_t kWide, class T>
HWY_INLINE void add_products(const T* HWY_RESTRICT x, std::int64_t rows, std::int64_t columns, std::int64_t column,
                             const double* HWY_RESTRICT residuals, double* HWY_RESTRICT gradient) {
  const Lanes tag;
  const std::int64_t stride = padded(columns + 1);
  Vector sums[kOutputs][kWide];
  for (auto& output : sums) {
    for (auto& sum : output) sum = hn::Zero(tag);
  }
  const std::int64_t left = columns - column - (kWide - 1) * kLanes;  // of the last vector
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* here = x + row * columns + column;
    Vector values[kWide];
    for (std::int64_t v = 0; v + 1 < kWide; ++v) values[v] = load(here + v * kLanes);
    values[kWide - 1] =
        left >= kLanes ? load(here + (kWide - 1) * kLanes) : load_some(here + (kWide - 1) * kLanes, left);
    for (std::int64_t output = 0; output < kOutputs; ++output) {
      const Vector residual = hn::Set(tag, residuals[output * kRows + row]);
      for (std::int64_t v = 0; v < kWide; ++v) sums[output][v] = hn::MulAdd(residual, values[v], sums[output][v]);
    }
  }
  for (std::int64_t output = 0; output < kOutputs; ++output) {
    for (std::int64_t v = 0; v < kWide; ++v) {
      double* sum = gradient + output * stride + column + v * kLanes;
      hn::Store(hn::Add(hn::Load(tag, sum), sums[output][v]), tag, sum);
    }
  }
}

template <std::int64_t kOutputs, class T>
HWY_INLINE void add_gradient(const T* x, std::int64_t rows, std::int64_t columns, const double* residuals,
                             double* gradient) {
  const std::int64_t vectors = (columns + kLanes - 1) / kLanes;
  std::int64_t v = 0;
  const auto add = [&]<std::int64_t kWide>() HWY_ATTR {
    add_products<kOutputs, kWide>(x, rows, columns, v * kLanes, residuals, gradient);
    v += kWide;
  };
  constexpr std::int64_t kMost = kManyRegisters ? 4 : 2;
  while (vectors - v >= kMost) add.template operator()<kMost>();
  if (kMost > 3 && vectors - v == 3) add.template operator()<3>();
  if (kMost > 2 && vectors - v == 2) add.template operator()<2>();
  if (vectors - v == 1) add.template operator()<1>();
  const std::int64_t stride = padded(columns + 1);
  for (std::int64_t output = 0; output < kOutputs; ++output) {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += residuals[output * kRows + row];
    gradient[output * stride + columns] += sum;
  }
}

template <class T>
void AddLogistic(const T* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                 const double* weights, LogisticSums sums, double* probabilities, double* memory) {
  const std::int64_t columns = point.columns, outputs = point.outputs;
  const Work work(memory, outputs);
  LossLanes losses;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t some = std::min(kRows, rows - first);
    const T* here = x + first * columns;
    make_margins(here, some, point, work);
    for (std::int64_t row = 0; row < some; ++row) {
      const std::int32_t number = classes == nullptr ? 0 : classes[first + row];
      work.weights[row] = weights == nullptr ? 1 : weights[first + row];
      work.own[row] = outputs == 1 ? static_cast<double>(number) : work.residuals[number * kRows + row];
    }
    std::fill(work.weights + some, work.weights + kRows, 0.0);
    std::fill(work.own + some, work.own + kRows, 0.0);
    double* probability = probabilities == nullptr ? nullptr : probabilities + first;
    if (outputs == 1) {
      tell_two_apart(some, work, probability, losses);
    } else {
      tell_apart(some, outputs, work, probability, padded(rows), losses);
    }
    if (classes == nullptr) continue;
    for (std::int64_t row = 0; outputs > 1 && row < some; ++row) {
      work.residuals[classes[first + row] * kRows + row] -= work.weights[row];
    }
    constexpr std::int64_t kAtOnce = 4;
    std::int64_t output = 0;
    const std::int64_t stride = padded(columns + 1);
    for (; output + kAtOnce <= outputs; output += kAtOnce) {
      add_gradient<kAtOnce>(here, some, columns, work.residuals + output * kRows, sums.gradient + output * stride);
    }
    for (; output < outputs; ++output) {
      add_gradient<1>(here, some, columns, work.residuals + output * kRows, sums.gradient + output * stride);
    }
  }
  if (classes != nullptr) *sums.loss += losses.sum();
}

std::int64_t ScratchDoubles(std::int64_t outputs) { return Work::doubles(outputs); }
void AddLogisticDouble(const double* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                       const double* weights, LogisticSums sums, double* probabilities, double* memory) {
  AddLogistic(x, rows, point, classes, weights, sums, probabilities, memory);
}
void AddLogisticFloat(const float* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                      const double* weights, LogisticSums sums, double* probabilities, double* memory) {
  AddLogistic(x, rows, point, classes, weights, sums, probabilities, memory);
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ml {
namespace {

HWY_EXPORT(ScratchDoubles);
HWY_EXPORT(AddLogisticDouble);
HWY_EXPORT(AddLogisticFloat);

double* take(LogisticScratch& scratch, std::int64_t outputs) {
  const auto lines = static_cast<std::size_t>((HWY_DYNAMIC_DISPATCH(ScratchDoubles)(outputs) + 7) / 8);
  if (scratch.lines.size() < lines) scratch.lines.resize(lines);
  return scratch.lines.front().values;
}

}  // namespace

template <>
void add_logistic(const double* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                  const double* weights, LogisticSums sums, double* probabilities, LogisticScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddLogisticDouble)
  (x, rows, point, classes, weights, sums, probabilities, take(scratch, point.outputs));
}
template <>
void add_logistic(const float* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                  const double* weights, LogisticSums sums, double* probabilities, LogisticScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddLogisticFloat)
  (x, rows, point, classes, weights, sums, probabilities, take(scratch, point.outputs));
}

}  // namespace lockstep::ml
#endif
