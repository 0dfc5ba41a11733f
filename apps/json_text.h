// apps/json_text.h
//
// JSON as our commands print it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::apps {

/// Indented. Names of hosts and words of other programs come in any encoding, and dump()
/// alone would throw: what is not UTF-8 becomes U+FFFD.
inline std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace lockstep::apps
