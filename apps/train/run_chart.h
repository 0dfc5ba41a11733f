// apps/train/run_chart.h
//
// Curves of runs as a picture: the loss over steps, or any other figure that their event files have.
#pragma once

#include <string>
#include <vector>

#include "lockstep/train/run_folder.h"

namespace lockstep::apps {

/// `figures` are tags such as "train/loss"; empty: losses of training and validation. Of a long run a point is the mean
/// of some steps. Fault::Usage, naming what there is, if no run has one of them.
std::string chart_of(const std::vector<train::RunFolder>& runs, std::vector<std::string> figures);

}  // namespace lockstep::apps
