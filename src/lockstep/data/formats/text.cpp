// Lines of text, a sample each.
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/format.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

std::vector<Extent> lines_of(std::string_view text) {
  std::vector<Extent> lines;
  for (std::size_t begin = byte_order_mark(text); begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool carriage = end < text.size() && end > begin && text[end - 1] == '\r';
    lines.push_back({0, begin, end - begin - (carriage ? 1 : 0)});
    begin = end + 1;
  }
  return lines;
}

class TextWriter final : public Writer {
 public:
  explicit TextWriter(const std::string& path) : file_(path) {}

  void add(const std::string& key, const Sample& sample) override {
    const Value& value = sample.values.at(0);
    const auto text = as_text(value.bytes);
    if (value.missing) fail(Fault::Data, fmt::format("sample '{}' has no text, and a line is one; use csv", key));
    if (text.find('\n') != std::string_view::npos || text.ends_with('\r')) {
      fail(Fault::Data, fmt::format("the text of sample '{}' holds a line end, so it is no line; use csv, tar or "
                                    "tfrecord",
                                    key));
    }
    file_.write(text);
    file_.write("\n");
  }
  void finish() override { file_.commit(); }

 private:
  WholeFile file_;
};

class Text final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".txt"}; }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    Index index;
    index.files = {scanned_file(*file)};
    index.schema = {{"text", Encoding::Text}};
    Column column;
    column.fields = {0};
    column.extents = lines_of(as_text(whole(*file, scratch)));
    index.samples = static_cast<std::int64_t>(column.extents.size());
    index.columns = {std::move(column)};
    return index;
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "text is compressed as a whole: write it, then gzip it");
    if (schema.size() != 1) {
      fail(Fault::Usage, fmt::format("lines hold one field of text, but there are {} fields; choose one with --fields, "
                                     "or use csv or tfrecord",
                                     schema.size()));
    }
    if (schema[0].encoding != Encoding::Text)
      fail(Fault::Usage, fmt::format("lines hold text, not {}; use csv or tfrecord", schema[0].text()));
    return std::make_unique<TextWriter>(path);
  }
};

const FormatRegistry::Add registered{"text", "Lines of text, a sample each", [] { return std::make_unique<Text>(); }};

}  // namespace
}  // namespace lockstep::data
