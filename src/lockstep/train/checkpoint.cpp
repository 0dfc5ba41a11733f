#include "lockstep/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/streamed_safetensors.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char kManifest[] = "manifest.json";
constexpr const char kUnfinished[] = ".new";
constexpr int kVersion = 3;

std::string hash_of_file(const std::string& path) {
  constexpr std::uint64_t kPiece = 16 << 20;
  data::Scratch scratch;
  const auto file = data::open_file(path);
  Hasher hasher;
  for (std::uint64_t at = 0; at < file->size(); at += kPiece) {
    const data::Bytes bytes = file->read(at, std::min(kPiece, file->size() - at), scratch);
    hasher.update(bytes.data(), bytes.size());
  }
  return hasher.hex();
}

std::string hash_of_json(const nlohmann::json& json) {
  const std::string text = json.dump();
  Hasher hasher;
  hasher.update(text.data(), text.size());
  return hasher.hex();
}

std::optional<std::int64_t> number_of(const std::string& name) {
  std::int64_t number = 0;
  const auto [stop, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (code != std::errc() || stop != name.data() + name.size()) return std::nullopt;
  return number;
}

/// What a folder holds, as far as it can be read; `stop` is why no further.
std::vector<fs::path> entries_of(const std::string& folder, std::error_code& stop) {
  std::vector<fs::path> result;
  for (fs::directory_iterator entry(folder, stop); !stop && entry != fs::directory_iterator(); entry.increment(stop)) {
    result.push_back(entry->path());
  }
  return result;
}

nlohmann::json read_manifest(const std::string& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown) && !unknown) fail(Fault::Data, fmt::format("there is no {}", path));
  try {
    auto json = nlohmann::json::parse(read_whole(path));
    if (json.at("version").get<int>() != kVersion) {
      fail(Fault::Usage, fmt::format("{} is of another version of Lockstep ({}): go on with that one", path,
                                     json.at("version").dump()));
    }
    if (hash_of_json({json.at("facts"), json.at("parts")}) != json.at("hash").get<std::string>()) {
      fail(Fault::Data, fmt::format("{} is not as it was written: what it says has changed", path));
    }
    return json;
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{} is no manifest of a checkpoint: {}", path, error.what()));
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path) : path_(std::move(path)) {}

std::string CheckpointFolder::folder(std::int64_t step) const { return fmt::format("{}/{:010}", path_, step); }
std::string CheckpointFolder::unfinished(std::int64_t step) const { return folder(step) + kUnfinished; }

nlohmann::json CheckpointFolder::write_part(std::int64_t step, int writer, const parallel::Parameters& tensors,
                                            const TensorParts& parts, const TensorValues& values_of) const {
  const std::string name = fmt::format("part-{:05}.safetensors", writer), path = unfinished(step) + "/" + name;
  std::error_code failed;
  fs::create_directories(unfinished(step), failed);
  if (failed) fail_to_write(unfinished(step), failed.value());
  const auto [bytes, hash] = data::stream_safetensors(path, tensors, values_of, {}, /*durable=*/true);
  nlohmann::json entry = {{"file", name}, {"bytes", bytes}, {"hash", hash}};
  if (auto noted = noted_parts(tensors, parts); !noted.empty()) entry["parts"] = std::move(noted);
  return entry;
}

void CheckpointFolder::complete(std::int64_t step, const nlohmann::json& facts,
                                const std::vector<nlohmann::json>& parts) const {
  const nlohmann::json manifest = {{"version", kVersion},
                                   {"step", step},
                                   {"facts", facts},
                                   {"parts", parts},
                                   {"hash", hash_of_json({facts, parts})}};
  WholeFile file(unfinished(step) + "/" + kManifest);
  file.write(manifest.dump(2) + "\n");
  file.commit(WholeFile::Durable::Yes);
  std::error_code failed;
  fs::remove_all(folder(step), failed);  // of a run that came this far before
  fs::rename(unfinished(step), folder(step), failed);
  if (failed) fail_to_write(folder(step), failed.value());
  sync_to_disk(path_);
}

void CheckpointFolder::drop_unfinished(std::optional<std::int64_t> step) const noexcept {
  std::error_code ignored;
  if (step) {
    fs::remove_all(unfinished(*step), ignored);
    return;
  }
  for (const auto& entry : entries_of(path_, ignored)) {
    if (entry.extension() == kUnfinished) fs::remove_all(entry, ignored);
  }
}

void CheckpointFolder::remove(std::int64_t step) const {
  std::error_code failed;
  // First out of sight, so that nobody finds half of it.
  fs::rename(folder(step), unfinished(step), failed);
  drop_unfinished(step);
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> result;
  std::error_code stop;
  for (const auto& entry : entries_of(path_, stop)) {
    if (const auto number = number_of(entry.filename().string())) result.push_back(*number);
  }
  if (stop && stop != std::errc::no_such_file_or_directory && stop != std::errc::not_a_directory) {
    fail(Fault::Io, fmt::format("{} cannot be read: {}", path_, stop.message()));
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<std::int64_t> CheckpointFolder::steps_by(comm::Communicator& group) const {
  const auto own = group.rank() == 0 ? steps() : std::vector<std::int64_t>();
  return nlohmann::json::parse(group.broadcast_bytes(nlohmann::json(own).dump(), 0)).get<std::vector<std::int64_t>>();
}

nlohmann::json CheckpointFolder::facts(std::int64_t step) const {
  return read_manifest(folder(step) + "/" + kManifest).at("facts");
}

SavedCheckpoint CheckpointFolder::open(std::int64_t step) const {
  const nlohmann::json manifest = read_manifest(folder(step) + "/" + kManifest);
  SavedCheckpoint checkpoint{step, manifest.at("facts"), {}};
  for (const auto& part : manifest.at("parts")) {
    checkpoint.tensors.add(folder(step) + "/" + part.at("file").get<std::string>(),
                           part.value("parts", nlohmann::json::object()));
  }
  return checkpoint;
}

void CheckpointFolder::check_parts(std::int64_t step, int share, int shares) const {
  const nlohmann::json manifest = read_manifest(folder(step) + "/" + kManifest);
  const auto& parts = manifest.at("parts");
  for (std::size_t i = static_cast<std::size_t>(share); i < parts.size(); i += static_cast<std::size_t>(shares)) {
    const auto& part = parts.at(i);
    const std::string path = folder(step) + "/" + part.at("file").get<std::string>();
    std::error_code missing;
    const auto bytes = fs::file_size(path, missing);
    if (missing && missing != std::errc::no_such_file_or_directory) {
      fail(Fault::Io, fmt::format("{} cannot be read: {}", path, missing.message()));
    }
    if (missing || bytes != part.at("bytes").get<std::uint64_t>() ||
        hash_of_file(path) != part.at("hash").get<std::string>()) {
      fail(Fault::Data, fmt::format("{} is not as it was written: {}", path,
                                    missing ? missing.message() : "its bytes have changed"));
    }
  }
}

SavedCheckpoint CheckpointFolder::read(std::int64_t step) const {
  check_parts(step, 0, 1);
  return open(step);
}

std::string CheckpointFolder::fault_of(std::int64_t step, int share, int shares) const {
  try {
    check_parts(step, share, shares);
  } catch (Error& error) {
    if (error.fault() == Fault::Data) return error.what();
    error.during(fmt::format("reading {}, which may be whole; remove it to go on from the one before", folder(step)));
    throw;
  } catch (const nlohmann::json::exception& error) {
    return fmt::format("its manifest lacks something: {}", error.what());
  }
  return "";
}

std::optional<SavedCheckpoint> CheckpointFolder::newest() const {
  auto all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const std::string fault = fault_of(*step);
    if (fault.empty()) return open(*step);
    warn_of_spoilt(*step, fault);
  }
  return std::nullopt;
}

void CheckpointFolder::warn_of_spoilt(std::int64_t step, const std::string& fault) {
  log().warn("passing over the checkpoint of step {}: {}", step, fault);
}

}  // namespace lockstep::train
