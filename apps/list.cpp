// `lockstep list`: everything that registered itself by name.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/comm/world.h"
#include "lockstep/data/open.h"
#include "lockstep/data/order.h"
#include "lockstep/data/tokenizer.h"
#include "lockstep/data/transform.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/optimizer.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/parallel/wire.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/metric.h"
#include "lockstep/train/schedule.h"
#include "lockstep/train/task.h"

namespace lockstep::apps {
namespace {

struct Entry {
  std::string kind;
  std::string name;
  std::string description;
};

template <class AnyRegistry>
void add_all(std::vector<Entry>& entries, const std::string& kind) {
  for (const auto& [name, entry] : AnyRegistry::instance().entries())
    entries.push_back({kind, name, entry.description});
}

std::vector<Entry> all_entries() {
  comm::load_plugins();
  std::vector<Entry> entries;
  add_all<comm::WorldRegistry>(entries, "back-end");
  add_all<data::FormatRegistry>(entries, "format");
  add_all<data::DatasetRegistry>(entries, "data set");
  add_all<data::OrderRegistry>(entries, "order");
  add_all<data::TokenizerRegistry>(entries, "tokenizer");
  add_all<data::TransformRegistry>(entries, "transform");
  add_all<models::ModelRegistry>(entries, "model");
  add_all<train::TaskRegistry>(entries, "task");
  add_all<parallel::OptimizerRegistry>(entries, "optimizer");
  add_all<parallel::WireRegistry>(entries, "wire");
  add_all<parallel::PipelineScheduleRegistry>(entries, "pipeline");
  add_all<train::ScheduleRegistry>(entries, "schedule");
  add_all<train::MetricRegistry>(entries, "metric");
  add_all<train::CallbackRegistry>(entries, "callback");
  add_all<ml::PredictorRegistry>(entries, "algorithm");
  add_all<ml::KMeansStarts>(entries, "start");
  return entries;
}

void print_json(const std::vector<Entry>& entries) {
  auto list = nlohmann::json::array();
  for (const auto& entry : entries) {
    list.push_back({{"kind", entry.kind}, {"name", entry.name}, {"description", entry.description}});
  }
  fmt::print("{}", json_text(list));
}

void print_table(const std::vector<Entry>& entries) {
  for (const auto& entry : entries) fmt::print("{:<10} {:<10} {}\n", entry.kind, entry.name, entry.description);
}

}  // namespace

void add_list(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("list", "Everything registered by name");
  command->add_flag("--json", *json, "For scripts");
  command->callback([json] { *json ? print_json(all_entries()) : print_table(all_entries()); });
}

}  // namespace lockstep::apps
