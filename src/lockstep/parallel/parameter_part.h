// lockstep/parallel/parameter_part.h
//
// Which elements of a whole parameter a rank holds when layers are split over ranks, or weights
// are shared out among them. Both are stored row by row, and the elements of a part come in the
// order that they have in the whole, so that a part is a sequence of runs: what initialises, saves
// and loads parameters walks these and need not know why a layer is split as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::parallel {

/// Of dim `dim`, which holds `bands` things of equal size one behind the other (such as queries, keys and values): of
/// each of them the `index`-th of `count` slices, which differ in size by one at most.
struct Cut {
  int dim = 0;
  std::int64_t bands = 1;
  int index = 0;
  int count = 1;
};

/// Of the elements of a part, in their order, these alone.
struct Window {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Window&) const = default;
};

/// Neighbours in the whole that are neighbours in the part, too.
struct PartRun {
  std::int64_t of_whole = 0;  // where they begin, in elements
  std::int64_t of_part = 0;
  std::int64_t count = 0;
};

class ParameterPart {
 public:
  /// All of it.
  explicit ParameterPart(std::vector<std::int64_t> whole) : ParameterPart(std::move(whole), Cut{}) {}
  /// Fault::Usage if a rank would hold nothing, or the bands do not divide the dim.
  ParameterPart(std::vector<std::int64_t> whole, Cut cut);

  /// What is left of it; a tensor of one dim.
  ParameterPart within(const Window& window) const;
  /// The same of several, which ascend: their elements one behind the other. Of a part without windows.
  ParameterPart within_all(std::vector<Window> windows) const;

  const std::vector<std::int64_t>& whole() const noexcept { return whole_; }
  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  const Cut& cut() const noexcept { return cut_; }
  const std::optional<std::vector<Window>>& windows() const noexcept { return windows_; }
  bool is_whole() const noexcept { return cut_.count == 1 && !windows_; }
  /// Where this rank's slice of a band begins.
  std::int64_t first() const noexcept;
  /// In ascending order; of a scalar one element.
  std::vector<PartRun> runs() const;

 private:
  std::vector<PartRun> runs_of_cut() const;

  std::vector<std::int64_t> whole_, shape_;
  Cut cut_;
  std::optional<std::vector<Window>> windows_;
};

}  // namespace lockstep::parallel
