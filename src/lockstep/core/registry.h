// lockstep/core/registry.h
//
// A Registry maps names to factories. A file registers what it offers with a
// static Registry<T>::Add, so that a new thing is one new file; the command line,
// `lockstep list` and shared tests find it by name. A name belongs to one of them: a
// second Add of it throws, and so ends the program at its start.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep {

template <class Factory>
class Registry {
 public:
  struct Entry {
    std::string description;
    std::function<Factory> make;
  };

  /// The one table of this Factory type in the process.
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  struct Add {
    Add(const std::string& name, const std::string& description, std::function<Factory> make) {
      const auto [place, added] = instance().entries_.try_emplace(name, Entry{description, std::move(make)});
      // The order of static objects of different files is not fixed: neither may win.
      if (!added) {
        fail(Fault::Internal,
             "'" + name + "' is registered twice: '" + place->second.description + "' and '" + description + "'");
      }
    }
  };

  /// The factory called `name`; an Error that proposes the nearest name if there is none.
  const std::function<Factory>& at(const std::string& what, const std::string& name) const {
    const auto found = entries_.find(name);
    if (found != entries_.end()) return found->second.make;
    fail(Fault::Usage, "unknown " + what + " '" + name + "'" + proposal(name, names()));
  }
  bool contains(const std::string& name) const { return entries_.count(name) > 0; }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, entry] : entries_) result.push_back(name);
    return result;
  }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
