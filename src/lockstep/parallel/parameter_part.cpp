#include "lockstep/parallel/parameter_part.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {
namespace {

std::int64_t product(std::vector<std::int64_t>::const_iterator begin, std::vector<std::int64_t>::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

}  // namespace

ParameterPart::ParameterPart(std::vector<std::int64_t> whole, Cut cut)
    : whole_(std::move(whole)), shape_(whole_), cut_(cut) {
  if (cut_.count == 1) return;
  auto& size = shape_.at(static_cast<std::size_t>(cut_.dim));
  if (size % cut_.bands != 0 || size / cut_.bands < cut_.count) {
    fail(Fault::Usage,
         fmt::format(
             "dim {} of [{}] is {} x {} elements, which cannot be split over {} ranks: set parallel.tensor to at "
             "most {}",
             cut_.dim, fmt::join(whole_, ", "), cut_.bands, size / cut_.bands, cut_.count, size / cut_.bands));
  }
  const std::int64_t band = size / cut_.bands;
  size = cut_.bands * (band * (cut_.index + 1) / cut_.count - first());
}

std::int64_t ParameterPart::first() const noexcept {
  if (cut_.count == 1) return 0;
  return whole_[static_cast<std::size_t>(cut_.dim)] / cut_.bands * cut_.index / cut_.count;
}

ParameterPart ParameterPart::within(const Window& window) const {
  if (!windows_) return within_all({window});
  const Window outer = windows_->front();
  if (windows_->size() != 1 || window.first < 0 || window.first + window.count > outer.count) {
    fail(Fault::Internal, fmt::format("elements {} to {} of {} in {} windows", window.first,
                                      window.first + window.count, outer.count, windows_->size()));
  }
  return ParameterPart(whole_, cut_).within_all({{outer.first + window.first, window.count}});
}

ParameterPart ParameterPart::within_all(std::vector<Window> windows) const {
  if (windows_) fail(Fault::Internal, "windows within windows");
  const std::int64_t all = product(shape_.begin(), shape_.end());
  std::int64_t count = 0, end = 0;
  for (const Window& window : windows) {
    if (window.first < end || window.count < 0 || window.first + window.count > all)
      fail(Fault::Internal, fmt::format("elements {} to {} of {}", window.first, window.first + window.count, all));
    end = window.first + window.count;
    count += window.count;
  }
  ParameterPart part = *this;
  part.windows_ = std::move(windows);
  part.shape_ = {count};
  return part;
}

std::vector<PartRun> ParameterPart::runs() const {
  if (!windows_) return runs_of_cut();
  std::vector<PartRun> runs;
  std::int64_t at = 0;  // where the window begins in the part
  for (const Window& window : *windows_) {
    for (const auto& [of_whole, of_part, count] : runs_of_cut()) {
      const std::int64_t begin = std::max(of_part, window.first);
      const std::int64_t end = std::min(of_part + count, window.first + window.count);
      if (begin < end) runs.push_back({of_whole + begin - of_part, at + begin - window.first, end - begin});
    }
    at += window.count;
  }
  return runs;
}

std::vector<PartRun> ParameterPart::runs_of_cut() const {
  if (cut_.count == 1) return {{0, 0, product(whole_.begin(), whole_.end())}};
  const std::int64_t inner = product(whole_.begin() + cut_.dim + 1, whole_.end());
  const std::int64_t outer = product(whole_.begin(), whole_.begin() + cut_.dim);
  const auto dim = static_cast<std::size_t>(cut_.dim);
  const std::int64_t band = whole_[dim] / cut_.bands, own = band * (cut_.index + 1) / cut_.count - first();
  std::vector<PartRun> runs;
  for (std::int64_t i = 0; i < outer * cut_.bands; ++i) {
    runs.push_back({(i * band + first()) * inner, i * own * inner, own * inner});
  }
  return runs;
}

}  // namespace lockstep::parallel
