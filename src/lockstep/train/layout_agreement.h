// lockstep/train/layout_agreement.h
//
// What rank 0 measures and chooses before a run, and all ranks then have alike: times differ from rank to
// rank, and cuts must not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/layout.h"
#include "lockstep/train/run_outline.h"

namespace lockstep::train {

struct AgreedLayout {
  Layout layout;
  std::vector<std::string> reasons;  // on rank 0, where it was chosen
};
/// As the recipe says it, as it was `before`, see choose_layout(), or chosen. A collective.
AgreedLayout agree_on_layout(const RunOutline& run, comm::Communicator& world, const std::optional<Layout>& before);

struct AgreedCosts {
  std::vector<double> costs;  // of links; empty: nobody has measured them
  std::string why_not;        // on rank 0: why they could not be
};
/// Of the links of a pipeline, by which its stages are balanced. A collective if there is one.
AgreedCosts agree_on_costs(const RunOutline& run, const Layout& layout, comm::Communicator& world);

}  // namespace lockstep::train
