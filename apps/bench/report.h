// apps/bench/report.h
//
// What every benchmark reports: the timed calls of ours and of the peers, pooled
// over all rounds, and how they compare. Writes the JSON of `lockstep bench --json`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "disk_use.h"

namespace lockstep::apps {

inline constexpr const char* kOurs = "lockstep";
/// Neither ours nor a peer: the same work without communication, or no more than the reading of its data.
inline constexpr const char* kCeiling = "ceiling";

struct Participant {
  std::string who;
  std::string variant;  // "" when there is only one
  bool operator==(const Participant&) const = default;
};
/// "lockstep in_place", "openmpi".
std::string label(const Participant& participant);
/// Neither ours nor the ceiling.
bool is_peer(const Participant& participant);

/// What was done: times compare only within one Workload, which is the same work on as many cores, whether they are
/// used by ranks or by threads.
struct Workload {
  std::string name;  // "allreduce"
  int ranks = 1;
  int threads = 1;
  std::int64_t bytes = 0;  // 0: no size belongs to it
  int cores() const noexcept { return ranks * threads; }
  bool operator==(const Workload& other) const {
    return name == other.name && cores() == other.cores() && bytes == other.bytes;
  }
};

/// Everything measured of one participant on one workload.
struct Series {
  Participant participant;
  Workload workload;
  std::vector<double> seconds;
  std::optional<std::int64_t> samples_per_call;
  std::optional<std::int64_t> peak_pss_bytes;
  std::optional<DiskUse> disk = {};         // of what was read
  std::vector<double> open_seconds = {};    // until it could be read
  std::vector<double> exposed_shares = {};  // of a step: waiting for other ranks
  std::optional<std::int64_t> bytes_per_call = {};
  std::map<std::string, double> values = {};  // what came out
};

/// Mean of the two middle values of an even number. Requires a value.
double median(std::vector<double> values);
/// The smallest value that `percent` of all values do not exceed. Requires a value.
double percentile(std::vector<double> values, double percent);

/// By what was read in a call, or the workload's size; 0 if neither is known. Requires a time.
double bytes_per_s(const Series& series);

/// Best peer's median over ours: above 1 ours is faster.
struct Ratio {
  Participant ours;
  Workload workload;
  std::string best_peer;
  double ratio = 0;
};

class Report {
 public:
  explicit Report(std::string bench) : bench_(std::move(bench)) {}

  /// The series of this pair, empty at first. The reference holds until the next call.
  Series& series(const Participant& participant, const Workload& workload);
  void add(const Participant& participant, const Workload& workload, const std::vector<double>& seconds);
  /// A peer that could not run, or not to the end: named, never left out silently.
  void skip(const std::string& who, const std::string& reason);

  struct Skipped {
    std::string who;
    std::string reason;
  };
  const std::string& bench() const noexcept { return bench_; }
  const std::vector<Series>& all() const noexcept { return series_; }
  const std::vector<Skipped>& skipped() const noexcept { return skipped_; }
  const Series* find(const Participant& participant, const Workload& workload) const;
  /// In the order in which they were first added.
  std::vector<Workload> workloads() const;
  std::vector<Participant> participants() const;
  /// Ours over the ceiling's median: how far from it. Nothing of others, or where there is none.
  std::optional<double> over_ceiling(const Series& series) const;
  /// One for each of our series that a peer has a counterpart to.
  std::vector<Ratio> ratios() const;

  nlohmann::json json() const;

 private:
  std::string bench_;
  std::vector<Series> series_;
  std::vector<Skipped> skipped_;
};

}  // namespace lockstep::apps
