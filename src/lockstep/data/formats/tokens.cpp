// Tokens one behind the other, as language models are trained on: a sample is a window of
// them, and windows may overlap.
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/log.h"
#include "lockstep/data/format.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

ScalarType token_type(const std::string& name) {
  if (name == "uint16") return ScalarType::UInt16;
  if (name == "uint32") return ScalarType::UInt32;
  fail(Fault::Usage, fmt::format("tokens are uint16 or uint32, not '{}' (--token-type)", name));
}

struct Windows {
  std::int64_t window = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
  std::int64_t left = 0;  // tokens behind the last one
};

Windows windows_of(std::int64_t tokens, const OpenOptions& options) {
  if (options.window <= 0) {
    fail(Fault::Usage,
         fmt::format(
             "a token file does not say how long a sample is, and window is {}: say window = 1024 (--window 1024)",
             options.window));
  }
  if (options.stride < 0) fail(Fault::Usage, fmt::format("stride is {}, but windows go forward", options.stride));
  if (tokens < options.window) {
    fail(Fault::Data, fmt::format("there are {} tokens, too few for a window of {}", tokens, options.window));
  }
  const std::int64_t stride = options.stride == 0 ? options.window : options.stride;
  const std::int64_t steps = (tokens - options.window) / stride;
  return {options.window, stride, steps + 1, tokens - options.window - steps * stride};
}

class TokenWriter final : public Writer {
 public:
  TokenWriter(const std::string& path, const Schema& schema) : file_(checked(path, schema)), type_(schema[0].type) {}

  void add(const std::string&, const Sample& sample) override {
    const Bytes bytes = sample.values.at(0).bytes;
    switch (type_) {
      case ScalarType::Int: return add_narrowed<std::int32_t>(bytes);
      case ScalarType::Long: return add_narrowed<std::int64_t>(bytes);
      default: file_.write(as_text(bytes));
    }
  }
  void finish() override { file_.commit(); }

 private:
  /// Before the file is made.
  static const std::string& checked(const std::string& path, const Schema& schema) {
    if (schema.size() != 1) {
      fail(Fault::Usage,
           fmt::format("a token file holds one field, but there are {}; choose one with --fields", schema.size()));
    }
    const Field& field = schema[0];
    const bool type = field.type == ScalarType::UInt16 || field.type == ScalarType::UInt32 ||
                      field.type == ScalarType::Int || field.type == ScalarType::Long;
    if (field.encoding != Encoding::Values || !type || field.shape.size() != 1) {
      fail(Fault::Usage, fmt::format("a token file holds integers in one dim, not {}; use npy, or for text "
                                     "--transform 'tokenise {} tokenizer=bytes type=uint16'",
                                     field.text(), field.name));
    }
    return path;
  }
  /// To uint16, as which token files are read unless one says otherwise: all shards must agree, so it
  /// cannot be chosen by the largest token of each.
  template <class Id>
  void add_narrowed(Bytes bytes) {
    narrow_.clear();
    for (std::size_t at = 0; at + sizeof(Id) <= bytes.size(); at += sizeof(Id)) {
      Id id;
      std::memcpy(&id, bytes.data() + at, sizeof id);
      if (id < 0 || id > UINT16_MAX) {
        fail(Fault::Data, fmt::format("the token {} does not fit uint16, as which {} are written; use npy, or text "
                                      "with --transform 'tokenise … type=uint32'",
                                      id, comm::name_of(type_)));
      }
      narrow_.push_back(static_cast<std::uint16_t>(id));
    }
    file_.write(as_text(std::as_bytes(std::span(narrow_))));
  }

  WholeFile file_;
  ScalarType type_;
  std::vector<std::uint16_t> narrow_;
};

class Tokens final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".bin", ".tokens"}; }

  Index scan(const std::string& path, const OpenOptions& options) const override {
    const ScalarType type = token_type(options.token_type);
    const auto file = map_file(path);
    const std::uint64_t size = c10::elementSize(type);
    if (file->size() % size != 0) {
      fail(Fault::Data,
           fmt::format(
               "{} bytes are no whole number of {} tokens: the file is cut short, or token_type (--token-type) is "
               "another",
               file->size(), options.token_type));
    }
    const auto windows = windows_of(static_cast<std::int64_t>(file->size() / size), options);
    if (windows.left > 0) log().info("{}: the last {} tokens fill no window and are left out", path, windows.left);

    Index index;
    index.files = {scanned_file(*file)};
    index.schema = {{"tokens", Encoding::Values, type, {windows.window}}};
    index.samples = windows.count;
    Column column;
    column.fields = {0};
    column.layout = Column::Layout::Uniform;
    column.extents = {{0, 0, static_cast<std::uint64_t>(windows.window) * size}};
    column.step = static_cast<std::uint64_t>(windows.stride) * size;
    index.columns = {std::move(column)};
    return index;
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "tokens cannot be compressed; npz and hdf5 can");
    return std::make_unique<TokenWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"tokens", "Raw tokens, a sample per window of them",
                                     [] { return std::make_unique<Tokens>(); }};

}  // namespace
}  // namespace lockstep::data
