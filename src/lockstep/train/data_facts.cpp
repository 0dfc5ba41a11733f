#include "lockstep/train/data_facts.h"

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/text.h"

namespace lockstep::train {

namespace {

/// Sets that differ in nothing but their values have equally many samples of the same names.
std::string content_of(const data::Dataset& set, std::int64_t index) {
  data::Sample sample;
  set.read(index, sample);
  Hasher hasher;
  for (const auto& value : sample.values) hasher.update(value.bytes.data(), value.bytes.size());
  return hasher.hex();
}

}  // namespace

nlohmann::json data_facts(const TrainingData& data, std::uint64_t seed) {
  const data::Dataset& set = *data.train;
  std::vector<std::string> fields;
  for (const auto& field : set.schema()) fields.push_back(field.text());
  nlohmann::json facts = {
      {"seed", seed}, {"data.order", data.order}, {"count of samples", set.size()}, {"fields", join(fields, "; ")}};
  if (set.size() > 0) {
    facts["content of the first sample"] = content_of(set, 0);
    facts["first sample"] = set.key(0);
    facts["last sample"] = set.key(set.size() - 1);
  }
  // Names of files come in any encoding, and could not be written: what is not UTF-8 becomes U+FFFD.
  return nlohmann::json::parse(facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void check_same_data(const nlohmann::json& of_checkpoint, const nlohmann::json& now) {
  if (of_checkpoint.is_null()) return;
  for (const auto& [what, value] : now.items()) {
    const auto before = of_checkpoint.value(what, nlohmann::json());
    if (before == value) continue;
    fail(Fault::Usage,
         fmt::format("the run cannot go on with other data: its {} was {} and is {} now; resume with data and seed as "
                     "they were, or begin a new run",
                     what, before.dump(), value.dump()));
  }
}

}  // namespace lockstep::train
