#include "lockstep/comm/tuning.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/environment.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

std::string cache_file(const std::string& folder, int local_ranks) {
  return fmt::format("{}/tuning-{}-{}-ranks.json", folder, machine().host, local_ranks);
}

}  // namespace

std::string Tuning::json() const {
  return nlohmann::json{{"doubling_bytes", doubling_bytes},
                        {"two_hop_bytes", two_hop_bytes},
                        {"inline_bytes", inline_bytes},
                        {"piece_bytes", piece_bytes},
                        {"window_bytes", window_bytes}}
      .dump();
}

Tuning Tuning::from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  Tuning tuning;
  if (!json.is_object()) fail(Fault::Data, "the tuning table is not JSON; run 'lockstep bench calibrate' again");
  const auto read = [&](const char* key, std::size_t& value, std::size_t lowest, std::size_t highest) {
    if (json.contains(key) && json[key].is_number_unsigned()) {
      value = std::clamp(json[key].get<std::size_t>(), lowest, highest);
    }
  };
  constexpr std::size_t kMost = std::size_t{1} << 40;
  read("doubling_bytes", tuning.doubling_bytes, 0, kMost);
  read("two_hop_bytes", tuning.two_hop_bytes, 0, kMost);
  read("inline_bytes", tuning.inline_bytes, 0, kMost);
  read("piece_bytes", tuning.piece_bytes, 4096, kMost);
  read("window_bytes", tuning.window_bytes, 4096, Channel::kWindowBytes);
  return tuning;
}

std::optional<Tuning> given_tuning() {
  const auto given = environment::get(environment::kTuning);
  if (!given) return std::nullopt;
  const auto table = nlohmann::json::parse(*given, nullptr, false);
  if (!table.is_object()) {
    fail(Fault::Usage,
         fmt::format("{}={} is not a table in JSON; e.g. {{\"piece_bytes\": 1048576}}", environment::kTuning, *given));
  }
  const auto known = nlohmann::json::parse(Tuning{}.json());
  std::vector<std::string> keys;
  for (const auto& [key, value] : known.items()) keys.push_back(key);
  for (const auto& [key, value] : table.items()) {
    if (!known.contains(key)) {
      fail(Fault::Usage, fmt::format("{}: unknown key '{}'{}", environment::kTuning, key, proposal(key, keys)));
    }
    if (!value.is_number_unsigned()) {
      fail(Fault::Usage, fmt::format("{}: {} is {}, expected a number of bytes", environment::kTuning, key,
                                     value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    }
  }
  return Tuning::from_json(*given);
}

std::optional<Tuning> cached_tuning(int local_ranks) {
  if (const auto given = given_tuning()) return given;
  std::ifstream file(cache_file(cache_path(), local_ranks));
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return Tuning::from_json(text.str());
}

std::string cache_tuning(int local_ranks, const Tuning& tuning) {
  const std::string path = cache_file(cache_folder(), local_ranks);
  write_whole(path, tuning.json() + "\n");
  return path;
}

}  // namespace lockstep::comm
