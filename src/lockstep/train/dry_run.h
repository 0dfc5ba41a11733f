// lockstep/train/dry_run.h
//
// Says of a recipe, before any rank starts, how it would be laid out, what memory it would take and whether
// that is there; and if it is not, which settings would make it fit. No memory of the model is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/core/config.h"
#include "lockstep/train/layout_choice.h"
#include "lockstep/train/memory_limit.h"

namespace lockstep::train {

/// What somebody could set instead.
struct Remedy {
  std::string settings;  // as on the command line, but for what replaces a text in the recipe
  LayoutOutlook outlook;
};

struct DryRun {
  LayoutOutlook outlook;
  std::vector<std::string> stages;   // a line each; none without a pipeline
  std::int64_t samples_at_once = 0;  // of a micro-batch, on a rank
  MemoryLimit limit;
  bool fits = false;
  std::vector<std::string> reasons;  // of parallel = "auto"
  std::vector<Remedy> remedies;      // the best first, if it does not fit
  std::string smallest;              // the layout that takes the least, if none of them fits

  std::string text() const;
  nlohmann::json json() const;
};

/// Of `ranks` ranks; of a run that would go on, as it was laid out `before`. Fault::Usage on what a run would refuse.
DryRun dry_run(const Config& recipe, int ranks, const MemoryLimit& limit, const std::optional<Layout>& before = {});

}  // namespace lockstep::train
