// The files of MNIST: images and labels, each an array. train-images-idx3-ubyte brings
// its train-labels-idx1-ubyte along if that lies beside it.
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/array_rows.h"
#include "lockstep/data/format.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using c10::ScalarType;

constexpr std::array kTypes = {std::pair{0x08, ScalarType::Byte},  std::pair{0x09, ScalarType::Char},
                               std::pair{0x0B, ScalarType::Short}, std::pair{0x0C, ScalarType::Int},
                               std::pair{0x0D, ScalarType::Float}, std::pair{0x0E, ScalarType::Double}};

constexpr std::size_t kMostDims = 64;  // of a schema

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return __builtin_bswap32(number);
}

struct Head {
  ScalarType type = ScalarType::Byte;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

Head parse_head(Bytes bytes) {
  const auto number = [&](std::size_t place) { return std::to_integer<int>(bytes[place]); };
  if (bytes.size() < 4 || number(0) != 0 || number(1) != 0) {
    fail(Fault::Data, "not an IDX file: it does not begin with two zero bytes");
  }
  Head head;
  const auto* known =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.first == number(2); });
  if (known == kTypes.end()) fail(Fault::Data, fmt::format("IDX has no element type {:#04x}", number(2)));
  head.type = known->second;
  const auto dims = static_cast<std::size_t>(number(3));
  if (dims > kMostDims) fail(Fault::Data, fmt::format("the IDX head has {} dims, more than {}", dims, kMostDims));
  head.bytes = 4 + 4 * dims;
  if (bytes.size() < head.bytes)
    fail(Fault::Data, fmt::format("the IDX head is cut short: {} dims in {} bytes", dims, bytes.size()));
  std::uint64_t all = c10::elementSize(head.type);
  for (std::size_t dim = 0; dim < dims; ++dim) {
    head.shape.push_back(big_endian(bytes.data() + 4 + 4 * dim));
    if (__builtin_mul_overflow(all, static_cast<std::uint64_t>(head.shape.back()), &all)) {
      fail(Fault::Data, "the IDX head has an impossible shape");
    }
  }
  return head;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto place = text.rfind(from);
  return place == std::string::npos ? "" : text.replace(place, from.size(), to);
}

/// The labels that belong to images, if they are there.
std::string labels_beside(const std::string& images) {
  for (const auto& [from, to] :
       {std::pair{"images-idx3", "labels-idx1"}, {"images-idx4", "labels-idx1"}, {"images.idx3", "labels.idx1"}}) {
    const std::string labels = replaced(images, from, to);
    if (!labels.empty() && fs::exists(labels)) return labels;
  }
  return {};
}

void add_file(Index& index, const std::string& path, const std::string& field) {
  const auto file = map_file(path);
  Scratch scratch;
  const Head head = parse_head(whole(*file, scratch));
  const auto number = static_cast<std::uint32_t>(index.files.size());
  index.files.push_back(scanned_file(*file));
  const Extent place = {number, head.bytes, file->size() - head.bytes};
  add_array(index, field, head.type, head.shape, place);
  // The numbers of IDX are big-endian.
  if (c10::elementSize(head.type) > 1) index.columns.back().how = "big-endian";
}

template <class Word>
void swap_bytes(std::span<std::byte> bytes, Word (*swapped)(Word)) {
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    word = swapped(word);
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

void reverse_elements(std::span<std::byte> bytes, ScalarType type) {
  switch (c10::elementSize(type)) {
    case 2: return swap_bytes<std::uint16_t>(bytes, [](std::uint16_t word) { return __builtin_bswap16(word); });
    case 4: return swap_bytes<std::uint32_t>(bytes, [](std::uint32_t word) { return __builtin_bswap32(word); });
    case 8: return swap_bytes<std::uint64_t>(bytes, [](std::uint64_t word) { return __builtin_bswap64(word); });
    default: return;
  }
}

class IdxWriter final : public Writer {
 public:
  IdxWriter(const std::string& path, const Schema& schema) : rows_(schema), file_(path) { file_.write(head(0)); }

  void add(const std::string&, const Sample& sample) override {
    const Bytes bytes = rows_.bytes(sample);
    buffer_.assign(as_text(bytes));
    reverse_elements(std::as_writable_bytes(std::span(buffer_)), rows_.field().type);
    file_.write(buffer_);
    ++count_;
  }
  void finish() override {
    if (count_ > UINT32_MAX) fail(Fault::Usage, fmt::format("IDX cannot count {} samples; use npy", count_));
    file_.write_front(head(count_));
    file_.commit();
  }

 private:
  std::string head(std::int64_t rows) const {
    const auto* known =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.second == rows_.field().type; });
    if (known == kTypes.end()) fail(Fault::Usage, fmt::format("IDX cannot hold {}; use npy", rows_.field().text()));
    const auto shape = rows_.shape_of(rows);
    std::string text = {'\0', '\0', static_cast<char>(known->first), static_cast<char>(shape.size())};
    for (const auto size : shape) {
      const std::uint32_t number = __builtin_bswap32(static_cast<std::uint32_t>(size));
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return text;
  }

  ArrayRows rows_;
  WholeFile file_;
  std::string buffer_;
  std::int64_t count_ = 0;
};

class Idx final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {"-ubyte", ".idx", ".idx1", ".idx3"}; }

  Index scan(const std::string& path, const OpenOptions&) const override {
    Index index;
    const std::string labels = labels_beside(path);
    const bool labels_alone = path.find("labels") != std::string::npos;
    add_file(index, path, labels_alone ? "label" : "image");
    if (!labels.empty()) add_file(index, labels, "label");
    return index;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    if (!column.how.empty()) {
      const auto copy = sample.scratch.take(bytes.size());
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      reverse_elements(copy, index.schema[column.fields[0]].type);
      bytes = copy;
    }
    Format::decode(index, column, bytes, sample);
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "IDX is compressed as a whole: write it, then gzip it");
    return std::make_unique<IdxWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"idx", "Arrays of MNIST's files, images with their labels",
                                     [] { return std::make_unique<Idx>(); }};

}  // namespace
}  // namespace lockstep::data
