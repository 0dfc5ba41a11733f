// Every byte is a token: 256 ids, no files, any language.
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/tokenizer.h"

namespace lockstep::data {
namespace {

constexpr std::int32_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids, Specials) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= kBytes) {
        fail(Fault::Data, fmt::format("token {} at place {} is no byte: ids are from 0 to 255", id, text.size()));
      }
      text += static_cast<char>(id);
    }
    return text;
  }

  std::int64_t vocabulary() const noexcept override { return kBytes; }
  void save(const std::string&) const override {}  // nothing to know
};

const TokenizerRegistry::Add registered{"bytes", "Every byte is a token",
                                        [](const std::string&) { return std::make_unique<ByteTokenizer>(); }};

}  // namespace
}  // namespace lockstep::data
