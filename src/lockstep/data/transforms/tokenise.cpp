// Text to the ids of a vocabulary.
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tokenizer.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Tokenise final : public Transform {
 public:
  Tokenise(const Field& input, Arguments& arguments)
      : field_(input), tokenizer_(make_tokenizer(arguments.get("tokenizer", std::string("bytes")))) {
    if (input.encoding != Encoding::Text) fail(Fault::Usage, fmt::format("{} is no text", input.text()));
    field_.encoding = Encoding::Values;
    field_.type = c10::ScalarType::Int;
    field_.shape = {-1};
  }
  Field output() const override { return field_; }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    const auto ids = tokenizer_->encode(as_text(value.bytes));
    const auto memory = scratch.take(ids.size() * sizeof(ids[0]));
    if (!ids.empty()) std::memcpy(memory.data(), ids.data(), memory.size());
    value = {memory, {static_cast<std::int64_t>(ids.size())}, false};
  }

 private:
  Field field_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

const TransformRegistry::Add registered{
    "tokenise", "Text to ids: tokenizer=bytes, bpe or bpe:FOLDER",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Tokenise>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
