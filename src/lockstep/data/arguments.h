// lockstep/data/arguments.h
//
// Settings in a line: "samples=1000,dims=3" of a data set, "size=24 pad=4" of a
// transform. Whoever is set so asks for every key it knows, then finish() is called.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace lockstep::data {

class Arguments {
 public:
  /// `owner` is what messages call it: "the data set blobs". Fault::Usage unless `text` is empty or of key=value
  /// with separators between, each key once.
  Arguments(std::string owner, const std::string& text, char separator);

  /// Fault::Usage if it is given and is not a number from `lowest` to `highest`.
  std::int64_t get(const std::string& key, std::int64_t fallback,
                   std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                   std::int64_t highest = std::numeric_limits<std::int64_t>::max());
  double get(const std::string& key, double fallback, double lowest, double highest);
  std::string get(const std::string& key, const std::string& fallback);
  /// "0.5,0.5,0.5"
  std::vector<double> get(const std::string& key, const std::vector<double>& fallback, double lowest, double highest);
  /// Fault::Usage if a key was given that nobody asked for; proposes the nearest.
  void finish() const;

 private:
  const std::string* find(const std::string& key);
  double number_of(const std::string& key, const std::string& text, double lowest, double highest) const;

  std::string owner_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> known_;
};

/// What stands behind the colon of a data set's name.
Arguments arguments_of_set(const std::string& set, const std::string& text);

}  // namespace lockstep::data
