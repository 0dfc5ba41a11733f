// Which token comes next, at every place of a window.
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/task.h"

namespace lockstep::train {
namespace {

class NextToken final : public TaskKind {
 public:
  NextToken(const Config& recipe, const std::string& key)
      : field_(recipe.get(key + ".input", "")), words_(recipe.get(key + ".vocabulary", 0)) {
    if (words_ < 1)
      fail(Fault::Usage, key + ".vocabulary says how many tokens there are: 256 of bytes, 50257 of GPT-2's");
  }

  models::ModelData model_data(const data::Schema& schema) const override {
    const data::Field& field = schema[place(schema)];
    if (field.shape.size() != 1 || field.shape[0] < 2) {
      fail(Fault::Usage,
           fmt::format("{} is no window of at least 2 tokens; set data.window or data.pack_window", field.text()));
    }
    return {{field.shape[0] - 1}, words_};
  }

  Score score(models::Model& model, const data::Batch& batch) const override {
    const at::Tensor tokens = batch.tensors[place(batch.schema)].to(at::kLong);  // [batch, time + 1]
    try {
      const std::int64_t time = tokens.size(1) - 1;
      const at::Tensor outputs = for_loss(model.forward(tokens.narrow(1, 0, time))).flatten(0, 1);
      const at::Tensor targets = tokens.narrow(1, 1, time).flatten();
      return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum, kIgnoreNone), targets.numel(),
              outputs.detach(), targets};
    } catch (const c10::Error&) {
      if (tokens.is_cpu()) check(batch);
      throw;
    }
  }

  void check(const data::Batch& batch) const override {
    check_numbers(batch.tensors[place(batch.schema)].to(at::kLong), words_, batch, "token", "task.vocabulary");
  }

  std::vector<std::string> metrics() const override { return {"perplexity"}; }

 private:
  std::size_t place(const data::Schema& schema) const { return field_.empty() ? 0 : data::place_of(schema, field_); }

  std::string field_;
  std::int64_t words_;
};

const TaskRegistry::Add registered{
    "next_token", "Which token comes next, by cross entropy: input, vocabulary",
    [](const Config& recipe, const std::string& key) { return std::make_unique<NextToken>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
