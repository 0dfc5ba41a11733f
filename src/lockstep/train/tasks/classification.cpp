// Which of several classes a sample is of.
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/task.h"

namespace lockstep::train {
namespace {

class Classification final : public TaskKind {
 public:
  Classification(const Config& recipe, const std::string& key)
      : input_(recipe.get(key + ".input", "")),
        inputs_(recipe.get(key + ".inputs", std::vector<std::string>{})),
        target_(recipe.get(key + ".target", "label")),
        classes_(recipe.get(key + ".classes", 0)),
        smoothing_(parallel::share_below_one(recipe, key + ".label_smoothing", 0)) {
    if (classes_ < 0) fail(Fault::Usage, fmt::format("{}.classes = {}: from 1 on", key, classes_));
    if (!input_.empty() && !inputs_.empty())
      fail(Fault::Usage,
           fmt::format("{0}.input is one field, {0}.inputs several that become one: set one of them", key));
  }

  models::ModelData model_data(const data::Schema& schema) const override {
    const std::int64_t classes = classes_in(schema);
    if (classes == 0) {
      fail(Fault::Usage,
           fmt::format("how many classes '{}' tells apart is not known of the data; set task.classes", target_));
    }
    if (const data::Field& target = schema[data::place_of(schema, target_)];
        target.encoding != data::Encoding::Values || !target.fixed() || target.elements() != 1) {
      fail(Fault::Usage,
           fmt::format("{} is no number of a class: write classes as 0, 1, …, or set task.target", target.text()));
    }
    const auto places = places_of_input(schema);
    std::int64_t columns = 0;
    for (const std::size_t place : places) {
      if (schema[place].name == target_) {
        fail(Fault::Usage, fmt::format("'{}' is what is to be learned: it cannot be an input, too", target_));
      }
      if (!schema[place].fixed()) {
        fail(Fault::Usage, fmt::format("{} holds no numbers of one size: decode, resize or crop it in data.transforms, "
                                       "or name other fields in task.inputs",
                                       schema[place].text()));
      }
      columns += schema[place].elements();
    }
    if (places.size() == 1 && !schema[places[0]].shape.empty()) return {schema[places[0]].shape, classes};
    return {{columns}, classes};
  }

  at::Tensor input(models::Model& model, const data::Batch& batch) const override {
    return input_of(model, batch, places_of_input(batch.schema));
  }

  Score score(const at::Tensor& given, const data::Batch& batch, const parallel::ClassSplit& split) const override {
    const at::Tensor outputs = for_loss(given);
    if (batch[target_].is_cpu()) check_whole(batch);
    const at::Tensor targets = batch[target_].flatten().to(at::kLong);
    return {parallel::cross_entropy_sum(outputs, targets, smoothing_, split), targets.numel(), outputs.detach(),
            targets};
  }

  void check(const data::Batch& batch) const override {
    check_whole(batch);
    check_numbers(batch[target_].to(at::kLong), classes_in(batch.schema), batch, "class", "task.classes");
  }

  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  /// A column of a table may be of real numbers, and hold classes all the same.
  void check_whole(const data::Batch& batch) const {
    const at::Tensor targets = batch[target_].flatten();
    if (!targets.is_floating_point()) return;
    constexpr double kLargest = 1e15;  // what is beyond, or infinite, would become some other whole number
    const at::Tensor bad = targets.ne(targets.round()).logical_or(targets.abs().gt(kLargest)).nonzero();
    if (bad.size(0) == 0) return;
    const auto row = bad[0][0].item<std::int64_t>();
    fail(Fault::Data, fmt::format("sample {} has {} = {}, which is no class: classes are whole numbers from 0 on",
                                  batch.ids[static_cast<std::size_t>(row)], target_, targets[row].item<double>()));
  }

  /// 0: it is not known.
  std::int64_t classes_in(const data::Schema& schema) const {
    return classes_ > 0 ? classes_ : static_cast<std::int64_t>(schema[data::place_of(schema, target_)].classes.size());
  }

  /// Those that are named, else the first that is no target; of a table all columns but the target.
  std::vector<std::size_t> places_of_input(const data::Schema& schema) const {
    std::vector<std::size_t> places;
    for (const auto& name : inputs_) places.push_back(data::place_of(schema, name));
    if (!input_.empty()) places.push_back(data::place_of(schema, input_));
    if (!places.empty()) return places;
    for (std::size_t place = 0; place < schema.size(); ++place) {
      if (schema[place].name != target_) places.push_back(place);
    }
    if (places.empty()) fail(Fault::Usage, "the data has no field beside the target; set task.input");
    const data::Field& first = schema[places[0]];
    const bool table = first.encoding == data::Encoding::Values && first.shape.empty();
    if (!table) places.erase(places.begin() + 1, places.end());
    return places;
  }

  static at::Tensor input_of(models::Model& model, const data::Batch& batch, const std::vector<std::size_t>& places) {
    const at::Tensor& first = batch.tensors[places[0]];
    if (places.size() == 1 && first.dim() > 1) return as_numbers_of(model, first);
    std::vector<at::Tensor> columns;
    for (const std::size_t place : places) {
      columns.push_back(as_numbers_of(model, batch.tensors[place].reshape({first.size(0), -1})));
    }
    return at::cat(columns, 1);
  }

  static at::Tensor as_numbers_of(models::Model& model, const at::Tensor& values) {
    if (values.is_floating_point()) return values;
    return values.to(parallel::parameters_of(model.module()).at(0).tensor.scalar_type());
  }

  std::string input_;
  std::vector<std::string> inputs_;
  std::string target_;
  std::int64_t classes_;
  double smoothing_;
};

const TaskRegistry::Add registered{
    "classification", "Which class a sample is of, by cross entropy: input or inputs, target, classes, label_smoothing",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Classification>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
