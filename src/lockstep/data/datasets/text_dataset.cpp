#include "lockstep/data/datasets/text_dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/arguments.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tokenizer.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kLongestWindow = 1 << 24;

/// Runs of lines that are not blank.
std::vector<std::string_view> paragraphs_of(std::string_view text) {
  std::vector<std::string_view> paragraphs;
  std::size_t begin = 0, end = 0;  // of the one at hand, without its last line end
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', line), text.size());
    const bool blank = text.substr(line, line_end - line).find_first_not_of(" \t\r") == std::string_view::npos;
    if (blank) {
      if (end > begin) paragraphs.push_back(text.substr(begin, end - begin));
      begin = end = line_end + 1;
    } else {
      end = line_end;
    }
    line = line_end + 1;
  }
  if (end > begin) paragraphs.push_back(text.substr(begin, end - begin));
  return paragraphs;
}

class Paragraphs final : public Dataset {
 public:
  Paragraphs(std::string name, std::shared_ptr<const FileBytes> file)
      : name_(std::move(name)),
        file_(std::move(file)),
        text_(as_text(whole(*file_, scratch_))),
        paragraphs_(paragraphs_of(text_)) {}
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(paragraphs_.size()); }
  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(1);
    sample.values[0].bytes = as_bytes(paragraphs_[static_cast<std::size_t>(index)]);
  }
  std::string name(std::int64_t index) const override {
    const auto byte = paragraphs_[static_cast<std::size_t>(index)].data() - text_.data();
    return fmt::format("{}: sample {} at byte {}", name_, index, byte);
  }

 private:
  std::string name_;
  std::shared_ptr<const FileBytes> file_;
  Scratch scratch_;
  std::string_view text_;
  std::vector<std::string_view> paragraphs_;
  Schema schema_ = {{"text", Encoding::Text}};
};

class TokenWindows final : public Dataset {
 public:
  TokenWindows(std::string name, std::vector<std::int32_t> tokens, std::int64_t window, std::int64_t stride)
      : name_(std::move(name)), tokens_(std::move(tokens)), window_(window), stride_(stride) {
    const auto count = static_cast<std::int64_t>(tokens_.size());
    if (window_ > count) {
      fail(Fault::Usage, fmt::format("{} has {} tokens, fewer than the window of {}", name_, count, window_));
    }
    samples_ = (count - window_) / stride_ + 1;
    schema_ = {{"tokens", Encoding::Values, c10::ScalarType::Long, {window_}}};
  }
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return samples_; }
  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(1);
    const auto memory = sample.scratch.take(static_cast<std::size_t>(window_) * sizeof(std::int64_t));
    std::copy_n(tokens_.begin() + index * stride_, window_, reinterpret_cast<std::int64_t*>(memory.data()));
    sample.values[0] = {memory, {window_}, false};
  }
  std::string name(std::int64_t index) const override {
    return fmt::format("{}: sample {} at token {}", name_, index, index * stride_);
  }

 private:
  std::string name_;
  std::vector<std::int32_t> tokens_;
  std::int64_t window_;
  std::int64_t stride_;
  std::int64_t samples_ = 0;
  Schema schema_;
};

}  // namespace

DatasetPtr open_text(const std::string& set, const std::string& arguments, const std::string& file) {
  Arguments given = arguments_of_set(set, arguments);
  const std::int64_t window = given.get("window", std::int64_t{0}, 1, kLongestWindow);
  const std::int64_t stride = given.get("stride", window, 1, kLongestWindow);
  const std::string tokenizer = given.get("tokenizer", std::string());
  given.finish();
  auto bytes = map_file(fetched_folder(set) + "/" + file);
  if (window == 0) {
    if (stride > 0 || !tokenizer.empty()) {
      fail(Fault::Usage, fmt::format("{} is read by paragraphs; for tokens say window=N too", set));
    }
    return std::make_shared<Paragraphs>(set, std::move(bytes));
  }
  Scratch scratch;
  auto tokens = make_tokenizer(tokenizer.empty() ? "bytes" : tokenizer)->encode(as_text(whole(*bytes, scratch)));
  return std::make_shared<TokenWindows>(set, std::move(tokens), window, stride);
}

}  // namespace lockstep::data
