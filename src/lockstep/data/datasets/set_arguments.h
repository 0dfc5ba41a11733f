// lockstep/data/datasets/set_arguments.h
//
// What stands behind the colon of a data set's name: "samples=1000,dims=3". Whoever
// makes the set asks for every key it knows, then calls finish().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::data {

class SetArguments {
 public:
  /// Fault::Usage unless `text` is empty or of key=value with commas between, each key once.
  SetArguments(std::string set, const std::string& text);

  std::string text(const std::string& key, const std::string& fallback);
  /// Fault::Usage if it is given and is not a number from `lowest` to `highest`.
  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t lowest, std::int64_t highest);
  double number(const std::string& key, double fallback, double lowest, double highest);
  /// Fault::Usage if a key was given that nobody asked for; proposes the nearest.
  void finish() const;

 private:
  const std::string* find(const std::string& key);

  std::string set_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> known_;
};

}  // namespace lockstep::data
