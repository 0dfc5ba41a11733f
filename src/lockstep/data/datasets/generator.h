// lockstep/data/datasets/generator.h
//
// Data sets that are computed, not stored. Sample i depends on the seed and i alone, so
// any rank makes any sample, in any order, without reading a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/core/random.h"
#include "lockstep/data/arguments.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

class Generator : public Dataset {
 public:
  const Schema& schema() const noexcept final { return schema_; }
  std::int64_t size() const noexcept final { return samples_; }
  void read(std::int64_t index, Sample& sample) const final;
  std::string name(std::int64_t index) const final;

 protected:
  /// Takes what all generators have: samples and seed.
  Generator(std::string name, Arguments& arguments);

  /// Fills in every value by value_in(); `random` is the sample's own.
  virtual void fill(std::int64_t index, Random random, Sample& sample) const = 0;

  /// What all samples have in common: a class's centre, a model's weights.
  Random shared_random(std::uint64_t number) const noexcept;
  void add_field(Field field) { schema_.push_back(std::move(field)); }
  /// An int64 called "label", of `classes` classes named by their numbers.
  void add_label(std::int64_t classes);
  /// Memory for the value of a field of fixed() values of the type Number.
  template <class Number>
  std::span<Number> value_in(Sample& sample, std::size_t place) const {
    const Field& field = schema_[place];
    const auto memory = sample.scratch.take(static_cast<std::size_t>(field.bytes()));
    sample.values[place] = {memory, Shape(field.shape.begin(), field.shape.end()), false};
    return {reinterpret_cast<Number*>(memory.data()), memory.size() / sizeof(Number)};
  }

 private:
  std::string name_;
  std::int64_t samples_;
  std::uint64_t seed_;
  Schema schema_;
};

/// Makes a Kind of the arguments: a factory for DatasetRegistry.
template <class Kind>
DatasetPtr generate(const std::string& name, const std::string& text) {
  Arguments arguments = arguments_of_set(name, text);
  auto made = std::make_shared<Kind>(arguments);
  arguments.finish();
  return made;
}

}  // namespace lockstep::data
