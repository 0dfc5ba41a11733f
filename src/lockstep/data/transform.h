// lockstep/data/transform.h
//
// A Transform turns one field of a sample into what the model takes: decodes, crops,
// flips, scales. Its randomness is keyed by seed, epoch and sample, so that a sample
// looks the same on any rank and any thread. A new one is one new file in transforms/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/core/random.h"
#include "lockstep/core/registry.h"
#include "lockstep/data/arguments.h"
#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

class Transform {
 public:
  virtual ~Transform() = default;
  /// What the field becomes.
  virtual Field output() const = 0;
  /// Of one that leaves something to chance: the transform with the same settings that stands for it where nothing
  /// may be, as in evaluations; "": it is left out there.
  virtual std::optional<std::string> without_chance() const { return std::nullopt; }
  /// Replaces `value`; its bytes may point into `scratch` afterwards. Called from many threads.
  virtual void apply(Value& value, Random& random, Scratch& scratch) const = 0;
};

/// `input` is what the field is when its turn comes; Fault::Usage if it cannot be applied to such a one.
using TransformRegistry = Registry<std::unique_ptr<Transform>(const Field& input, Arguments& arguments)>;

/// Transforms of all fields, in order.
class Pipeline {
 public:
  /// Each step is "NAME FIELD key=value …", as in "crop image size=24 pad=4". The field is left
  /// out where the data set has only one.
  Pipeline(const Schema& input, const std::vector<std::string>& steps);
  const Schema& output() const noexcept { return schema_; }
  /// The same steps, of which none leaves anything to chance.
  std::vector<std::string> without_chance() const;
  /// `key` is of seed and epoch, `id` of the sample. What a library throws becomes Fault::Data: it is
  /// of this sample, which may be skipped.
  void apply(Sample& sample, std::uint64_t key, std::int64_t id) const;

 private:
  struct Step {
    std::string text;
    std::size_t field;
    std::unique_ptr<Transform> transform;
  };
  Schema schema_;
  std::vector<Step> steps_;
};

}  // namespace lockstep::data
