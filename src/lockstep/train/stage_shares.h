// lockstep/train/stage_shares.h
//
// Where a pipeline cuts a model by what its links cost, and what each stage has of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/parallel/link_costs.h"
#include "lockstep/train/layout.h"

namespace lockstep::train {

/// Seconds of each link with so many samples; the loss is the last link's.
std::vector<double> seconds_of(const parallel::ModelCosts& costs, std::int64_t samples);
/// What stages are balanced by: the seconds of so many samples, or, unless these are measured, the sizes of matrices.
std::vector<double> weighed_links(const parallel::ModelCosts& costs, std::int64_t samples, bool measured);
/// layout.cuts, or cuts that balance what links cost with the samples of a micro-batch. Fault::Usage if there are more
/// stages than links.
std::vector<std::size_t> cuts_of(const parallel::ModelCosts& costs, const Layout& layout, const RunFacts& facts);
/// What each rank of the pipe axis has of all costs; they add up to 1.
std::vector<double> shares_of_stages(const std::vector<double>& costs, const std::vector<std::size_t>& cuts,
                                     int stages);
/// "stage 0: embedding to h.1, 48.2 % of the time", for each; without costs nothing of shares.
std::vector<std::string> stage_lines(const parallel::Chain& chain, const std::vector<std::size_t>& cuts, int stages,
                                     const std::vector<double>& costs);

}  // namespace lockstep::train
