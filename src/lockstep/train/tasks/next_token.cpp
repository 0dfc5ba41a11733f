// Which token comes next, at every place of a window.
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

  at::Tensor input(models::Model&, const data::Batch& batch) const override {
    const at::Tensor tokens = tokens_of(batch);
    return tokens.narrow(1, 0, tokens.size(1) - 1);
  }

  Score score(const at::Tensor& given, const data::Batch& batch, const parallel::ClassSplit& split) const override {
    const at::Tensor tokens = tokens_of(batch), outputs = for_loss(given).flatten(0, 1);
    const at::Tensor targets = tokens.narrow(1, 1, tokens.size(1) - 1).flatten();
    return {parallel::cross_entropy_sum(outputs, targets, 0, split), targets.numel(), outputs.detach(), targets};
  }

  void check(const data::Batch& batch) const override {
    check_numbers(tokens_of(batch), words_, batch, "token", "task.vocabulary");
  }

  std::vector<std::string> metrics() const override { return {"perplexity"}; }

 private:
  /// [batch, time + 1]
  at::Tensor tokens_of(const data::Batch& batch) const { return batch.tensors[place(batch.schema)].to(at::kLong); }
  std::size_t place(const data::Schema& schema) const { return field_.empty() ? 0 : data::place_of(schema, field_); }

  std::string field_;
  std::int64_t words_;
};

const TaskRegistry::Add registered{
    "next_token", "Which token comes next, by cross entropy: input, vocabulary",
    [](const Config& recipe, const std::string& key) { return std::make_unique<NextToken>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
