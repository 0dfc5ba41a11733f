// Text to the ids of a vocabulary.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tokenizer.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

ScalarType type_of_ids(const std::string& name) {
  const std::vector<std::string> possible = {"int32", "int64", "uint16", "uint32"};
  if (std::find(possible.begin(), possible.end(), name) != possible.end()) return type_named(name);
  fail(Fault::Usage, fmt::format("tokens are {}, not '{}'", join(possible, ", "), name));
}

template <class Id>
Bytes narrowed(const std::vector<std::int32_t>& ids, Scratch& scratch) {
  const auto memory = scratch.take(ids.size() * sizeof(Id));
  auto* place = memory.data();
  for (const auto id : ids) {
    const auto narrow = static_cast<Id>(id);
    if (static_cast<std::int64_t>(narrow) != id) fail(Fault::Data, fmt::format("the token {} needs a wider type", id));
    std::memcpy(place, &narrow, sizeof narrow);
    place += sizeof narrow;
  }
  return memory;
}

class Tokenise final : public Transform {
 public:
  Tokenise(const Field& input, Arguments& arguments)
      : field_(input),
        tokenizer_(make_tokenizer(arguments.get("tokenizer", std::string("bytes")))),
        end_(arguments.get("end", std::int64_t{-1})) {
    if (input.encoding != Encoding::Text) fail(Fault::Usage, fmt::format("{} is no text", input.text()));
    if (end_ < -1 || end_ > INT32_MAX) fail(Fault::Usage, fmt::format("end={} is no token", end_));
    field_.encoding = Encoding::Values;
    field_.type = type_of_ids(arguments.get("type", std::string("int32")));
    if (field_.type == ScalarType::UInt16 && end_ > UINT16_MAX) {
      fail(Fault::Usage, fmt::format("end={} does not fit uint16; say type=uint32", end_));
    }
    field_.shape = {-1};
  }
  Field output() const override { return field_; }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    auto ids = tokenizer_->encode(as_text(value.bytes));
    if (end_ >= 0) ids.push_back(static_cast<std::int32_t>(end_));
    const Shape shape = {static_cast<std::int64_t>(ids.size())};
    switch (field_.type) {
      case ScalarType::UInt16: value = {narrowed<std::uint16_t>(ids, scratch), shape, false}; break;
      case ScalarType::UInt32: value = {narrowed<std::uint32_t>(ids, scratch), shape, false}; break;
      case ScalarType::Long: value = {narrowed<std::int64_t>(ids, scratch), shape, false}; break;
      default: value = {narrowed<std::int32_t>(ids, scratch), shape, false}; break;
    }
  }

 private:
  Field field_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::int64_t end_;  // put behind every text; -1: nothing
};

const TransformRegistry::Add registered{
    "tokenise", "Text to ids: tokenizer=bytes, bpe or bpe:FOLDER, type=uint16, end=50256",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Tokenise>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
