// lockstep/data/tf_example_schema.h
//
// What the Examples of a file have in common, as a Schema. An Example says neither shapes
// nor what its bytes are, so both are taken from all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/tf_example.h"

namespace lockstep::data {

class ExampleSchema {
 public:
  /// Fault::Data, naming the feature, if it cannot be one field with those of the records before.
  void add(const Example& example);
  /// In the order in which the features were first seen.
  Schema schema() const;

 private:
  struct Seen {
    Field plain;     // the feature by itself
    Field declared;  // as the tensor that it is by what stands beside it
    std::int64_t records = 0;
    std::int64_t declarations = 0;
    Feature::Kind kind = Feature::Kind::None;  // these two: of the record before
    std::int64_t count = 0;
  };
  Seen& seen(std::string_view name, std::size_t likely);
  static void add_plain(Seen& seen, const Feature& feature);
  void add_declared(const Example& example, const Feature& shape);
  bool always_declared(const Seen& seen) const;
  bool is_in(std::int64_t records, const std::string& name) const;

  std::vector<Seen> features_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// What holds the values of both; Fault::Data if nothing does.
Field joined(const Field& one, const Field& other);

}  // namespace lockstep::data
