#include "lockstep/train/saved_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

using parallel::ParameterPart;
using parallel::PartRun;

/// Elements that two parts have in common.
std::vector<PartRun> common_runs(const ParameterPart& of, const ParameterPart& with) {
  const auto ours = of.runs(), theirs = with.runs();
  std::vector<PartRun> common;  // of_whole: place in `of`; of_part: place in `with`
  auto one = ours.begin();
  for (const PartRun& other : theirs) {
    while (one != ours.end() && one->of_whole + one->count <= other.of_whole) ++one;
    for (auto next = one; next != ours.end() && next->of_whole < other.of_whole + other.count; ++next) {
      const std::int64_t begin = std::max(next->of_whole, other.of_whole);
      const std::int64_t end = std::min(next->of_whole + next->count, other.of_whole + other.count);
      common.push_back({next->of_part + begin - next->of_whole, other.of_part + begin - other.of_whole, end - begin});
    }
  }
  return common;
}

/// Neighbouring runs come in one read, of a bounded number of bytes: of a matrix that is split by columns there are as
/// many as rows.
std::int64_t copy_runs(const data::Safetensors& file, const std::string& name, const std::vector<PartRun>& runs,
                       const at::Tensor& to) {
  constexpr std::int64_t kMostBytes = 16 << 20;
  const auto size = static_cast<std::int64_t>(to.element_size());
  auto* target = static_cast<std::byte*>(to.mutable_data_ptr());
  std::vector<std::byte> memory;
  std::int64_t copied = 0;
  for (auto first = runs.begin(); first != runs.end();) {
    if (first->count * size > kMostBytes) {  // straight to its place
      file.read(name, first->of_whole, first->count, target + first->of_part * size);
      copied += first++->count;
      continue;
    }
    auto last = first;
    while (last != runs.end() && (last->of_whole + last->count - first->of_whole) * size <= kMostBytes) ++last;
    const std::int64_t begin = first->of_whole, end = std::prev(last)->of_whole + std::prev(last)->count;
    memory.resize(static_cast<std::size_t>((end - begin) * size));
    file.read(name, begin, end - begin, memory.data());
    for (; first != last; ++first) {
      std::memcpy(target + first->of_part * size, memory.data() + (first->of_whole - begin) * size,
                  static_cast<std::size_t>(first->count * size));
      copied += first->count;
    }
  }
  return copied;
}

bool is_same(const ParameterPart& one, const ParameterPart& other) {
  if (one.whole() != other.whole() || one.windows() != other.windows()) return false;
  const auto &mine = one.cut(), &its = other.cut();
  if (mine.count == 1 && its.count == 1) return true;  // whichever dim is not cut
  return mine.dim == its.dim && mine.bands == its.bands && mine.index == its.index && mine.count == its.count;
}

}  // namespace

ParameterPart part_of(const TensorParts& parts, const std::string& name, const at::Tensor& tensor) {
  auto found = parts.find(name);
  if (found == parts.end()) found = parts.find(name.substr(name.rfind('/') + 1));
  return found == parts.end() ? ParameterPart(tensor.sizes().vec()) : found->second;
}

nlohmann::json noted_parts(const data::NamedTensors& tensors, const TensorParts& parts) {
  nlohmann::json noted = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    const ParameterPart part = part_of(parts, name, tensor);
    if (part.is_whole()) continue;
    const auto& [dim, bands, index, count] = part.cut();
    noted[name] = {{"whole", part.whole()}, {"dim", dim}, {"bands", bands}, {"index", index}, {"count", count}};
    if (!part.windows()) continue;
    if (part.windows()->size() == 1) {
      noted[name]["first"] = part.windows()->front().first;  // as many as the file has
      continue;
    }
    auto& windows = noted[name]["windows"] = nlohmann::json::array();
    for (const auto& window : *part.windows()) windows.push_back({window.first, window.count});
  }
  return noted;
}

void SavedTensors::add(const std::string& path, const nlohmann::json& parts) {
  // Of thousands of ranks there are thousands of files, and a process may not have so many open at once.
  data::check_can_read(path);
  const auto file = std::make_shared<const data::Safetensors>(data::plain_file(path, std::filesystem::file_size(path)));
  for (const auto& name : file->names()) {
    ParameterPart part(file->shape(name));
    if (parts.contains(name)) {
      const auto& noted = parts.at(name);
      part = ParameterPart(noted.at("whole").get<std::vector<std::int64_t>>(),
                           {noted.at("dim").get<int>(), noted.at("bands").get<std::int64_t>(),
                            noted.at("index").get<int>(), noted.at("count").get<int>()});
      if (noted.contains("first")) part = part.within({noted.at("first").get<std::int64_t>(), file->shape(name).at(0)});
      if (noted.contains("windows")) {
        std::vector<parallel::Window> windows;
        for (const auto& window : noted.at("windows")) {
          windows.push_back({window.at(0).get<std::int64_t>(), window.at(1).get<std::int64_t>()});
        }
        part = part.within_all(std::move(windows));
      }
    }
    auto& pieces = pieces_[name];
    if (pieces.empty()) names_.push_back(name);
    // Elements that came twice would count for others that are missing.
    if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& other) { return is_same(other.part, part); }))
      continue;
    pieces.push_back({file, std::move(part)});
  }
}

bool SavedTensors::read_into(const at::Tensor& target, const std::string& name, const ParameterPart& part) const {
  const auto found = pieces_.find(name);
  if (found == pieces_.end() || found->second.front().part.whole() != part.whole()) return false;
  const at::ScalarType type = found->second.front().file->type(name);
  // Beside a large part there may be no room for it once more.
  const bool in_place = target.is_contiguous() && target.is_cpu() && target.scalar_type() == type &&
                        target.sizes() == at::IntArrayRef(part.shape());
  at::Tensor values = in_place ? target.detach() : at::empty(part.shape(), type);
  std::int64_t copied = 0;
  for (const auto& [file, theirs] : found->second) {
    copied += copy_runs(*file, name, common_runs(theirs, part), values);
  }
  if (copied != values.numel()) {
    fail(Fault::Data, fmt::format("the checkpoint holds {} of {} elements of '{}': a file of it is missing", copied,
                                  values.numel(), name));
  }
  if (!in_place) at::Tensor(target).copy_(values);
  return true;
}

const std::vector<SavedTensors::Piece>& SavedTensors::pieces_of(const std::string& name) const {
  const auto found = pieces_.find(name);
  if (found == pieces_.end()) fail(Fault::Usage, fmt::format("the checkpoint holds no tensor '{}'", name));
  return found->second;
}

at::Tensor SavedTensors::outline(const std::string& name) const {
  const Piece& first = pieces_of(name).front();
  return at::empty(first.part.whole(), at::TensorOptions(first.file->type(name)).device(at::kMeta));
}

at::Tensor SavedTensors::read(const std::string& name) const {
  const Piece& first = pieces_of(name).front();
  at::Tensor whole = at::empty(first.part.whole(), first.file->type(name));
  (void)read_into(whole, name, ParameterPart(first.part.whole()));
  return whole;
}

}  // namespace lockstep::train
