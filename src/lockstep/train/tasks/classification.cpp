// Which of several classes a sample is of.
#include <algorithm>

#include <ATen/ops/cross_entropy_loss.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/train/task.h"

namespace lockstep::train {
namespace {

class Classification final : public TaskKind {
 public:
  Classification(const Config& recipe, const std::string& key)
      : input_(recipe.get(key + ".input", "")),
        target_(recipe.get(key + ".target", "label")),
        classes_(recipe.get(key + ".classes", 0)),
        smoothing_(parallel::share_below_one(recipe, key + ".label_smoothing", 0)) {}

  models::ModelData model_data(const data::Schema& schema) const override {
    const data::Field& target = schema[data::place_of(schema, target_)];
    const auto classes = classes_ > 0 ? classes_ : static_cast<std::int64_t>(target.classes.size());
    if (classes == 0) {
      fail(Fault::Usage,
           fmt::format("how many classes '{}' tells apart is not known of the data; set task.classes", target_));
    }
    return {schema[place_of_input(schema)].shape, classes};
  }

  Score score(models::Model& model, const data::Batch& batch) const override {
    const at::Tensor outputs = for_loss(model.forward(batch.tensors[place_of_input(batch.schema)]));
    const at::Tensor targets = batch[target_].flatten().to(at::kLong);
    try {
      return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum, kIgnoreNone, smoothing_),
              targets.numel(), outputs.detach(), targets};
    } catch (const c10::Error&) {
      if (targets.is_cpu())
        check_numbers(batch[target_].to(at::kLong), outputs.size(1), batch, "class", "task.classes");
      throw;
    }
  }

  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  /// The one that is named, else the first that is no target.
  std::size_t place_of_input(const data::Schema& schema) const {
    if (!input_.empty()) return data::place_of(schema, input_);
    const auto place =
        std::find_if(schema.begin(), schema.end(), [this](const auto& field) { return field.name != target_; });
    if (place == schema.end()) fail(Fault::Usage, "the data has no field beside the target; set task.input");
    return static_cast<std::size_t>(place - schema.begin());
  }

  std::string input_;
  std::string target_;
  std::int64_t classes_;
  double smoothing_;
};

const TaskRegistry::Add registered{
    "classification", "Which class a sample is of, by cross entropy: input, target, classes, label_smoothing",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Classification>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
