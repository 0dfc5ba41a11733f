// apps/bench/ml_case.h
//
// What `lockstep bench ml` fits: a new case is one entry of the table in ml_case.cpp and,
// for its algorithm, a function of benchmarks/peers/ml_fits.py.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/ml_data.h"
#include "lockstep/ml/table.h"

namespace lockstep::apps {

/// What came out.
struct MlFitted {
  std::map<std::string, double> values;  // by which the participants are compared
  double passes = 1;                     // over the rows
};

/// A peer that has the algorithm; with several settings it enters once with each.
struct MlPeer {
  std::string name;
  bool over_ranks = false;  // it has it on several ranks too
  std::string variant = {};
  std::vector<std::string> arguments = {};  // of the variant, for the peers' program
};

struct MlCase {
  std::string name;
  std::string algorithm;                    // as the peers' program calls it
  std::vector<std::string> arguments = {};  // of the peers' program, beyond the data
  MlData data;
  bool takes_targets = false;  // of the data
  std::int64_t rows = 0;       // unless others are asked for
  std::vector<MlPeer> peers;
  /// Readies everything but the fit, which is what it returns. Both are collectives.
  std::function<std::function<MlFitted()>(const ml::Table& table)> prepare;

  /// That a pass over so many rows reads.
  std::int64_t bytes(std::int64_t rows_read) const;
};

const std::vector<std::string>& ml_case_names();
/// Of these, those that peers have, too; the others say how far ours are from reading the rows.
std::vector<std::string> ml_cases_with_peers();
/// Fault::Usage if there is none of that name, proposing the nearest.
const MlCase& ml_case(const std::string& name);

}  // namespace lockstep::apps
