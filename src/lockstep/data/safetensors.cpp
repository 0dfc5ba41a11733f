#include "lockstep/data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/text.h"
#include "lockstep/data/streamed_safetensors.h"

namespace lockstep::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHead = 100'000'000;  // as in the reference implementation
constexpr std::uint64_t kAlignment = 8;
constexpr std::int64_t kPieceElements = 1 << 20;
constexpr const char kFacts[] = "__metadata__";

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"F64", at::kDouble},         {"F32", at::kFloat},        {"F16", at::kHalf},
    {"BF16", at::kBFloat16},      {"I64", at::kLong},         {"I32", at::kInt},
    {"I16", at::kShort},          {"I8", at::kChar},          {"U64", at::kUInt64},
    {"U32", at::kUInt32},         {"U16", at::kUInt16},       {"U8", at::kByte},
    {"BOOL", at::kBool},          {"C64", at::kComplexFloat}, {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2}};

const char* name_of_type(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  fail(Fault::Usage, fmt::format("safetensors has no type for {}", c10::toString(type)));
}

std::uint64_t product(const std::vector<std::int64_t>& shape, std::uint64_t factor) {
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(factor, static_cast<std::uint64_t>(size), &factor)) {
      fail(Fault::Data, "a shape is negative or too large");
    }
  }
  return factor;
}

}  // namespace

WrittenFile write_safetensors(const std::string& path, const NamedTensors& tensors, const Texts& facts, bool durable) {
  return stream_safetensors(path, tensors, [](const NamedTensor& one) { return one.tensor; }, facts, durable);
}

WrittenFile stream_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::function<at::Tensor(const NamedTensor&)>& values_of, const Texts& facts,
                               bool durable) {
  nlohmann::ordered_json head;
  if (!facts.empty()) head[kFacts] = facts;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t begin = std::exchange(end, end + tensor.nbytes());
    head[name] = {
        {"dtype", name_of_type(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {begin, end}}};
  }
  if (head.size() != tensors.size() + (facts.empty() ? 0 : 1))
    fail(Fault::Internal, path + ": two tensors of one name");
  std::string text = head.is_null() ? "{}" : head.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();

  WholeFile file(path);
  Hasher hasher;
  const auto put = [&](std::string_view bytes) {
    file.write(bytes);
    hasher.update(bytes.data(), bytes.size());
  };
  put({reinterpret_cast<const char*>(&length), sizeof length});
  put(text);
  for (const auto& parameter : tensors) {
    const at::Tensor values = values_of(parameter).detach().contiguous().view(-1);
    // Of a tensor on another device there is never more than a piece in memory.
    const std::int64_t most = values.is_cpu() ? std::max<std::int64_t>(values.numel(), 1) : kPieceElements;
    for (std::int64_t first = 0; first < values.numel(); first += most) {
      const at::Tensor piece = values.narrow(0, first, std::min(most, values.numel() - first)).cpu();
      put({static_cast<const char*>(piece.const_data_ptr()), piece.nbytes()});
    }
  }
  file.commit(durable ? WholeFile::Durable::Yes : WholeFile::Durable::No);
  return {sizeof length + length + end, hasher.hex()};
}

Safetensors::Safetensors(const std::string& path) : Safetensors(data::open_file(path)) {}

Safetensors::Safetensors(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {
  const std::string& path = file_->path();
  data::Scratch scratch;
  const std::uint64_t size = file_->size();
  if (size < kLengthBytes) fail(Fault::Data, fmt::format("{}: {} bytes are no safetensors file", path, size));
  std::uint64_t length = 0;
  std::memcpy(&length, file_->read(0, kLengthBytes, scratch).data(), kLengthBytes);
  if (length > kLongestHead || length > size - kLengthBytes) {
    fail(Fault::Data, fmt::format("{}: byte 0 asks for a head of {} bytes in a file of {}: it is cut short or no "
                                  "safetensors file",
                                  path, length, size));
  }
  try {
    parse(file_->read(kLengthBytes, length, scratch), kLengthBytes + length);
  } catch (Error& error) {
    error.during("reading " + path);
    throw;
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{}: the head at byte {} is not that of a safetensors file: {}", path, kLengthBytes,
                                  error.what()));
  }
}

void Safetensors::parse(Bytes head, std::uint64_t first) {
  const auto json = nlohmann::ordered_json::parse(data::as_text(head));
  if (!json.is_object()) fail(Fault::Data, "the head is no JSON object");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, value] : json.items()) {
    if (name == kFacts) {
      facts_ = value.get<Texts>();
      continue;
    }
    const auto type_name = value.at("dtype").get<std::string>();
    const auto type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) { return type_name == known.first; });
    if (type == std::end(kTypes)) fail(Fault::Data, fmt::format("'{}' is of the unknown type {}", name, type_name));
    const auto offsets = value.at("data_offsets").get<std::vector<std::uint64_t>>();
    Entry entry{type->second, value.at("shape").get<std::vector<std::int64_t>>(), 0, 0};
    entry.bytes = product(entry.shape, c10::elementSize(entry.type));
    const std::uint64_t values = file_->size() - first;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > values ||
        offsets[1] - offsets[0] != entry.bytes) {
      fail(Fault::Data,
           fmt::format("'{}' needs {} bytes, which do not lie where the head says among the {} behind byte {}", name,
                       entry.bytes, values, first));
    }
    entry.begin = first + offsets[0];
    ranges.emplace_back(offsets[0], offsets[1]);
    names_.push_back(name);
    entries_.emplace(name, std::move(entry));
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t end = 0;  // of the values so far
  for (const auto& [begin, its_end] : ranges) {
    if (begin != end) {
      fail(Fault::Data, fmt::format("values {} byte {} behind byte {}",
                                    begin < end ? "lie over each other at" : "leave a gap before", begin, first));
    }
    end = its_end;
  }
  if (end != file_->size() - first) {
    fail(Fault::Data, fmt::format("{} bytes of values, and {} are behind byte {}", end, file_->size() - first, first));
  }
}

const Safetensors::Entry& Safetensors::entry(const std::string& name) const {
  const auto place = entries_.find(name);
  if (place == entries_.end()) {
    fail(Fault::Usage, fmt::format("{} holds no tensor '{}'{}", file_->path(), name, proposal(name, names_)));
  }
  return place->second;
}

const std::vector<std::int64_t>& Safetensors::shape(const std::string& name) const { return entry(name).shape; }

at::Tensor Safetensors::read(const std::string& name) const {
  const Entry& entry = this->entry(name);
  data::Scratch scratch;
  const Bytes bytes = file_->read(entry.begin, entry.bytes, scratch);
  at::Tensor values = at::empty(entry.shape, entry.type);
  if (!bytes.empty()) std::memcpy(values.mutable_data_ptr(), bytes.data(), bytes.size());
  return values;
}

void Safetensors::read(const std::string& name, std::int64_t first, std::int64_t count, void* to) const {
  const Entry& entry = this->entry(name);
  const std::uint64_t size = c10::elementSize(entry.type);
  data::Scratch scratch;
  const Bytes bytes = file_->read(entry.begin + static_cast<std::uint64_t>(first) * size,
                                  static_cast<std::uint64_t>(count) * size, scratch);
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace lockstep::data
