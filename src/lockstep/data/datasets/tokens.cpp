// A language of one rule: every token has a successor, and a share of `noise` of the
// places holds any token instead. What a language model can learn of it is known.
#include "lockstep/data/datasets/generator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

class Tokens final : public Generator {
 public:
  explicit Tokens(Arguments& arguments)
      : Generator("tokens", arguments),
        vocabulary_(static_cast<std::uint64_t>(arguments.get("vocabulary", std::int64_t{256}, 1, 1 << 24))),
        noise_(arguments.get("noise", 0.1, 0, 1)) {
    const std::int64_t length = arguments.get("length", std::int64_t{128}, 1, 1 << 24);
    add_field({"tokens", Encoding::Values, c10::ScalarType::Long, {length}});
  }

 protected:
  void fill(std::int64_t, Random random, Sample& sample) const override {
    std::uint64_t token = random.below(vocabulary_);
    for (auto& place : value_in<std::int64_t>(sample, 0)) {
      place = static_cast<std::int64_t>(token);
      token = random.uniform() < noise_ ? random.below(vocabulary_) : shared_random(token).below(vocabulary_);
    }
  }

 private:
  std::uint64_t vocabulary_;
  double noise_;
};

const DatasetRegistry::Add registered{
    "tokens",
    "Generated: token sequences in which each token has a successor (samples, length, vocabulary, noise, seed)",
    [](const std::string& arguments) { return generate<Tokens>("tokens", arguments); }};

}  // namespace
}  // namespace lockstep::data
