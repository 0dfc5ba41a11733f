#include "lockstep/parallel/layers/max_pool.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/csrc/autograd/custom_function.h>

// Compiled once per instruction set and chosen as the program starts, when a sanitizer is not ready yet.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_PER_INSTRUCTION_SET __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LOCKSTEP_PER_INSTRUCTION_SET
#endif

namespace lockstep::parallel {
namespace {

/// Which of four pixels was the greatest: 0 1 in the upper row, 2 3 in the lower.
using Place = std::uint8_t;

/// Between the two passes over an image: of each pair of neighbours in a row the greater, and whether it is the
/// right one. The pass from and to pixels takes all rows as one, for rows are shorter than a few vectors.
struct Pairs {
  explicit Pairs(std::int64_t count)
      : greater(static_cast<std::size_t>(count)), is_right(static_cast<std::size_t>(count)) {}
  std::vector<float> greater;
  std::vector<std::int32_t> is_right;
};

/// Of the two the second counts if it is greater or no number, as in at::max_pool2d.
inline bool second_counts(float first, float second) { return (second > first) | (second != second); }

LOCKSTEP_PER_INSTRUCTION_SET
void pool(const float* pixels, std::int64_t rows, std::int64_t columns, float* __restrict outputs,
          Place* __restrict places, float* __restrict greater, std::int32_t* __restrict is_right) {
  for (std::int64_t pair = 0; pair < 2 * rows * columns; ++pair) {
    const float left = pixels[2 * pair], right = pixels[2 * pair + 1];
    const bool is = second_counts(left, right);
    greater[pair] = is ? right : left;
    is_right[pair] = is ? 1 : 0;
  }
  for (std::int64_t row = 0; row < rows; ++row, outputs += columns, places += columns) {
    const float *upper = greater + 2 * row * columns, *lower = upper + columns;
    const std::int32_t *upper_is_right = is_right + 2 * row * columns, *lower_is_right = upper_is_right + columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      const bool is_lower = second_counts(upper[column], lower[column]);
      outputs[column] = is_lower ? lower[column] : upper[column];
      places[column] = static_cast<Place>(is_lower ? 2 + lower_is_right[column] : upper_is_right[column]);
    }
  }
}

LOCKSTEP_PER_INSTRUCTION_SET
void spread(const float* slopes, const Place* places, std::int64_t rows, std::int64_t columns,
            float* __restrict of_pixels, float* __restrict of_pairs, std::int32_t* __restrict is_right) {
  for (std::int64_t row = 0; row < rows; ++row, slopes += columns, places += columns) {
    float *upper = of_pairs + 2 * row * columns, *lower = upper + columns;
    std::int32_t *upper_is_right = is_right + 2 * row * columns, *lower_is_right = upper_is_right + columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int32_t place = places[column];
      upper[column] = place < 2 ? slopes[column] : 0;
      lower[column] = place < 2 ? 0 : slopes[column];
      upper_is_right[column] = lower_is_right[column] = place & 1;
    }
  }
  for (std::int64_t pair = 0; pair < 2 * rows * columns; ++pair) {
    of_pixels[2 * pair] = is_right[pair] != 0 ? 0 : of_pairs[pair];
    of_pixels[2 * pair + 1] = is_right[pair] != 0 ? of_pairs[pair] : 0;
  }
}

/// Calls work(first output of an image, its first pixel, room for its pairs) for all images that have these outputs.
template <class Work>
void for_each_image(const at::Tensor& outputs, Work work) {
  constexpr std::int64_t kOutputsOfATask = 1 << 13;
  const std::int64_t size = outputs.size(2) * outputs.size(3);
  const std::int64_t grain = std::max<std::int64_t>(1, kOutputsOfATask / size);
  at::parallel_for(0, outputs.size(0) * outputs.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    Pairs pairs(2 * size);
    for (std::int64_t image = begin; image < end; ++image) work(image * size, image * 4 * size, pairs);
  });
}

struct MaxPool : torch::autograd::Function<MaxPool> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images) {
    const at::Tensor pixels = images.contiguous();
    const std::int64_t rows = images.size(2) / 2, columns = images.size(3) / 2;
    at::Tensor outputs = at::empty({images.size(0), images.size(1), rows, columns}, images.options());
    at::Tensor places = at::empty(outputs.sizes(), at::kByte);
    const auto* from = pixels.const_data_ptr<float>();
    auto* to = outputs.mutable_data_ptr<float>();
    auto* place = places.mutable_data_ptr<Place>();
    for_each_image(outputs, [&](std::int64_t output, std::int64_t pixel, Pairs& pairs) {
      pool(from + pixel, rows, columns, to + output, place + output, pairs.greater.data(), pairs.is_right.data());
    });
    context->save_for_backward({places});
    return outputs;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const at::Tensor places = context->get_saved_variables()[0], slopes = slopes_of_output[0].contiguous();
    const std::int64_t rows = slopes.size(2), columns = slopes.size(3);
    at::Tensor of_images = at::empty({slopes.size(0), slopes.size(1), 2 * rows, 2 * columns}, slopes.options());
    const auto* from = slopes.const_data_ptr<float>();
    const auto* place = places.const_data_ptr<Place>();
    auto* to = of_images.mutable_data_ptr<float>();
    for_each_image(slopes, [&](std::int64_t output, std::int64_t pixel, Pairs& pairs) {
      spread(from + output, place + output, rows, columns, to + pixel, pairs.greater.data(), pairs.is_right.data());
    });
    return {of_images};
  }
};

}  // namespace

at::Tensor max_pool_2x2(const at::Tensor& images) {
  const bool whole_windows =
      images.dim() == 4 && images.numel() > 0 && images.size(2) % 2 == 0 && images.size(3) % 2 == 0;
  const bool here = images.device().is_cpu() && images.scalar_type() == at::kFloat;
  return whole_windows && here ? MaxPool::apply(images) : at::max_pool2d(images, {2, 2});
}

}  // namespace lockstep::parallel
