#include "bench/report.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "lockstep/core/cpu.h"

namespace lockstep::apps {
namespace {

nlohmann::json machine_json() {
  const Machine& here = machine();
  return {{"host", here.host},         {"cpu_model", here.cpu_model},
          {"packages", here.packages}, {"cores", here.cores},
          {"cpus", here.cpus},         {"numa_nodes", here.numa_nodes},
          {"l1_bytes", here.l1_bytes}, {"l2_bytes", here.l2_bytes},
          {"l3_bytes", here.l3_bytes}, {"memory_bytes", here.memory_bytes},
          {"kernel", here.kernel}};
}

/// The keys that say what a row or a ratio is about; those that do not apply are left out.
nlohmann::json subject_json(const Workload& workload, const std::string& variant) {
  nlohmann::json out = {{"case", workload.name}, {"ranks", workload.ranks}, {"threads", workload.threads}};
  if (!variant.empty()) out["variant"] = variant;
  if (workload.bytes > 0) out["bytes"] = workload.bytes;
  return out;
}

nlohmann::json row_json(const Series& series) {
  auto row = subject_json(series.workload, series.participant.variant);
  const double median_s = median(series.seconds);
  row["who"] = series.participant.who;
  row["median_s"] = median_s;
  row["p95_s"] = percentile(series.seconds, 95);
  row["reps"] = series.seconds.size();
  if (series.samples_per_call) row["samples_per_s"] = static_cast<double>(*series.samples_per_call) / median_s;
  if (series.peak_pss_bytes) row["peak_pss_bytes"] = *series.peak_pss_bytes;
  if (series.bytes_per_call) row["bytes_per_s"] = bytes_per_s(series);
  if (!series.values.empty()) row["values"] = series.values;
  if (!series.open_seconds.empty()) row["open_s"] = median(series.open_seconds);
  if (!series.exposed_shares.empty()) row["exposed_share"] = median(series.exposed_shares);
  if (series.disk) {
    row["files"] = series.disk->files;
    row["file_bytes"] = series.disk->bytes;
    row["disk_bytes"] = series.disk->disk_bytes;
  }
  return row;
}

nlohmann::json ratio_json(const Ratio& ratio) {
  auto out = subject_json(ratio.workload, ratio.ours.variant);
  out["best_peer"] = ratio.best_peer;
  out["ratio"] = ratio.ratio;
  return out;
}

}  // namespace

std::string label(const Participant& participant) {
  return participant.variant.empty() ? participant.who : participant.who + " " + participant.variant;
}

bool is_peer(const Participant& participant) { return participant.who != kOurs && participant.who != kCeiling; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

double bytes_per_s(const Series& series) {
  return static_cast<double>(series.bytes_per_call.value_or(series.workload.bytes)) / median(series.seconds);
}

Series& Report::series(const Participant& participant, const Workload& workload) {
  for (auto& known : series_) {
    if (known.participant == participant && known.workload == workload) return known;
  }
  return series_.emplace_back(Series{participant, workload, {}, {}, {}});
}

void Report::add(const Participant& participant, const Workload& workload, const std::vector<double>& seconds) {
  auto& pool = series(participant, workload).seconds;
  pool.insert(pool.end(), seconds.begin(), seconds.end());
}

void Report::skip(const std::string& who, const std::string& reason) { skipped_.push_back({who, reason}); }

const Series* Report::find(const Participant& participant, const Workload& workload) const {
  for (const auto& known : series_) {
    if (known.participant == participant && known.workload == workload && !known.seconds.empty()) return &known;
  }
  return nullptr;
}

std::vector<Workload> Report::workloads() const {
  std::vector<Workload> found;
  for (const auto& series : series_) {
    if (std::find(found.begin(), found.end(), series.workload) == found.end()) found.push_back(series.workload);
  }
  return found;
}

std::vector<Participant> Report::participants() const {
  std::vector<Participant> found;
  for (const auto& series : series_) {
    if (std::find(found.begin(), found.end(), series.participant) == found.end()) found.push_back(series.participant);
  }
  return found;
}

std::optional<double> Report::over_ceiling(const Series& series) const {
  const Series* ceiling = find({kCeiling, ""}, series.workload);
  if (series.participant.who != kOurs || ceiling == nullptr) return std::nullopt;
  return median(series.seconds) / median(ceiling->seconds);
}

std::vector<Ratio> Report::ratios() const {
  std::vector<Ratio> ratios;
  for (const auto& ours : series_) {
    if (ours.participant.who != kOurs || ours.seconds.empty()) continue;
    const Series* best = nullptr;
    for (const auto& peer : series_) {
      if (!is_peer(peer.participant) || !(peer.workload == ours.workload) || peer.seconds.empty()) continue;
      if (best == nullptr || median(peer.seconds) < median(best->seconds)) best = &peer;
    }
    if (best == nullptr) continue;
    ratios.push_back(
        {ours.participant, ours.workload, label(best->participant), median(best->seconds) / median(ours.seconds)});
  }
  return ratios;
}

nlohmann::json Report::json() const {
  nlohmann::json out = {{"bench", bench_}, {"machine", machine_json()}};
  out["rows"] = out["ratios"] = out["skipped"] = nlohmann::json::array();
  for (const auto& series : series_) {
    if (series.seconds.empty()) continue;
    auto& row = out["rows"].emplace_back(row_json(series));
    if (const auto over = over_ceiling(series)) row["over_ceiling"] = *over;
  }
  for (const auto& ratio : ratios()) out["ratios"].push_back(ratio_json(ratio));
  for (const auto& skipped : skipped_) out["skipped"].push_back({{"who", skipped.who}, {"reason", skipped.reason}});
  return out;
}

}  // namespace lockstep::apps
