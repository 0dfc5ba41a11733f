#include "lockstep/data/formats/lmdb_pages.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data::lmdb {
namespace {

constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kNoPage = UINT64_MAX;
constexpr std::uint64_t kPageHead = 16;
constexpr std::uint64_t kMetaBytes = 152;  // head of the page, meta data
constexpr std::uint64_t kDatabaseBytes = 48;
constexpr std::uint64_t kNodeHead = 8;
constexpr int kMostDepth = 32;

enum PageFlag : std::uint16_t { kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08 };
enum NodeFlag : std::uint16_t { kBigData = 0x01, kDatabase = 0x02, kSeveralValues = 0x04 };
enum DatabaseFlag : std::uint16_t { kSortedDuplicates = 0x04 };

template <class Number>
Number number_at(Bytes bytes, std::uint64_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

/// MDB_db: a tree of pages.
struct Database {
  std::uint16_t flags = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = kNoPage;
};

Database parse_database(Bytes bytes) {
  return {number_at<std::uint16_t>(bytes, 4), number_at<std::uint64_t>(bytes, 32), number_at<std::uint64_t>(bytes, 40)};
}

struct Head {
  std::uint64_t page_bytes = 0;
  std::uint64_t transaction = 0;
  Database main;
};

/// Of one of the two heads, which are written in turn.
std::optional<Head> parse_head(Bytes page) {
  if (page.size() < kMetaBytes || (number_at<std::uint16_t>(page, 10) & kMeta) == 0) return std::nullopt;
  const Bytes meta = page.subspan(kPageHead);
  if (number_at<std::uint32_t>(meta, 0) != kMagic) return std::nullopt;
  if (const auto version = number_at<std::uint32_t>(meta, 4); version != kVersion) {
    fail(Fault::Data, fmt::format("this is LMDB of data version {}; version {} is read", version, kVersion));
  }
  Head head;
  head.page_bytes = number_at<std::uint32_t>(meta, 24);
  head.main = parse_database(meta.subspan(24 + kDatabaseBytes));
  head.transaction = number_at<std::uint64_t>(meta, 24 + 2 * kDatabaseBytes + 8);
  const bool possible = head.page_bytes >= 256 && head.page_bytes <= 65536;
  return possible ? std::optional(head) : std::nullopt;
}

class Pages {
 public:
  explicit Pages(Bytes file) : file_(file) {
    const auto first = parse_head(file);
    if (!first) fail(Fault::Data, "not an LMDB file: it does not begin with a page of its meta data");
    head_ = *first;
    if (file.size() > head_.page_bytes) {
      const auto second = parse_head(file.subspan(head_.page_bytes));
      if (second && second->page_bytes == head_.page_bytes && second->transaction > head_.transaction) head_ = *second;
    }
  }

  const Database& main() const noexcept { return head_.main; }

  /// Calls visit(node flags, entry) in the order of keys.
  template <class Visit>
  void walk(const Database& database, const Visit& visit) {
    if (database.flags & kSortedDuplicates) {
      fail(Fault::Data, "its keys have several values each (MDB_DUPSORT); one per key is wanted");
    }
    std::uint64_t found = 0;
    if (database.root != kNoPage) {
      walk_page(database.root, 0, [&](std::uint16_t flags, const Entry& entry) {
        ++found;
        visit(flags, entry);
      });
    }
    if (found != database.entries) {
      fail(Fault::Data, fmt::format("the file is torn: it has {} of its {} entries", found, database.entries));
    }
  }

 private:
  [[noreturn]] void torn(std::uint64_t page, std::string_view why) const {
    fail(Fault::Data, fmt::format("the file is torn at page {} (byte {} of {}): {}", page, page * head_.page_bytes,
                                  file_.size(), why));
  }

  /// `count` pages from page `number` on.
  Bytes pages(std::uint64_t number, std::uint64_t bytes) const {
    const std::uint64_t all = file_.size() / head_.page_bytes;
    if (number < 2 || number >= all) torn(number, fmt::format("it has {} pages", all));
    const std::uint64_t offset = number * head_.page_bytes;
    if (bytes > file_.size() - offset) torn(number, fmt::format("{} bytes are wanted from there on", bytes));
    return file_.subspan(offset, bytes);
  }

  template <class Visit>
  void walk_page(std::uint64_t number, int depth, const Visit& visit) {
    // Trees have no ways back: so a torn file costs no more than its size.
    if (++visited_ > file_.size() / head_.page_bytes || depth > kMostDepth) torn(number, "pages lead in a circle");
    const Bytes page = pages(number, head_.page_bytes);
    const auto flags = number_at<std::uint16_t>(page, 10);
    const bool leaf = (flags & (kLeaf | kBranch | kOverflow)) == kLeaf;
    if (!leaf && (flags & (kLeaf | kBranch | kOverflow)) != kBranch) torn(number, "it is not of a tree");
    const auto lower = number_at<std::uint16_t>(page, 12);
    if (lower < kPageHead || lower > page.size()) torn(number, fmt::format("its table ends at {}", lower));
    for (std::uint64_t place = kPageHead; place + 2 <= lower; place += 2) {
      const auto node = number_at<std::uint16_t>(page, place);
      if (node < lower || node + kNodeHead > page.size()) torn(number, fmt::format("a node lies at {}", node));
      if (leaf) {
        visit_leaf(number, page, node, visit);
      } else {
        walk_page(child_of(page, node), depth + 1, visit);
      }
    }
  }

  static std::uint64_t low_bits(Bytes page, std::uint64_t node) {
    return number_at<std::uint16_t>(page, node) | static_cast<std::uint64_t>(number_at<std::uint16_t>(page, node + 2))
                                                      << 16;
  }
  static std::uint64_t child_of(Bytes page, std::uint64_t node) {
    return low_bits(page, node) | static_cast<std::uint64_t>(number_at<std::uint16_t>(page, node + 4)) << 32;
  }

  template <class Visit>
  void visit_leaf(std::uint64_t number, Bytes page, std::uint64_t node, const Visit& visit) {
    const auto flags = number_at<std::uint16_t>(page, node + 4);
    const auto key_bytes = number_at<std::uint16_t>(page, node + 6);
    const std::uint64_t length = low_bits(page, node);
    const std::uint64_t value = node + kNodeHead + key_bytes;
    const std::uint64_t here = flags & kBigData ? sizeof(std::uint64_t) : length;
    if (value > page.size() || here > page.size() - value)
      torn(number, fmt::format("the node at {} is too long", node));
    if (flags & kSeveralValues) torn(number, "a key has several values");
    Entry entry;
    entry.key = as_text(page.subspan(node + kNodeHead, key_bytes));
    entry.offset = number * head_.page_bytes + value;
    entry.length = length;
    if (flags & kBigData) {
      const auto there = number_at<std::uint64_t>(page, value);
      const Bytes overflow = pages(there, kPageHead + length);
      if ((number_at<std::uint16_t>(overflow, 10) & kOverflow) == 0) torn(there, "it does not hold a large value");
      entry.offset = there * head_.page_bytes + kPageHead;
    }
    visit(flags, entry);
  }

  Bytes file_;
  Head head_;
  std::uint64_t visited_ = 0;
};

}  // namespace

bool is_lmdb(Bytes head) noexcept {
  return head.size() >= kPageHead + 4 && number_at<std::uint32_t>(head, kPageHead) == kMagic;
}

void each_entry(Bytes file, const std::function<void(const Entry&)>& each) {
  Pages pages(file);
  std::vector<std::pair<std::string, Database>> named;
  std::uint64_t plain = 0;
  pages.walk(pages.main(), [&](std::uint16_t flags, const Entry& entry) {
    if ((flags & kDatabase) == 0) {
      ++plain;
    } else {
      if (entry.length != kDatabaseBytes) fail(Fault::Data, fmt::format("the database '{}' is torn", entry.key));
      named.emplace_back(entry.key, parse_database(file.subspan(entry.offset, entry.length)));
    }
  });
  if (named.size() > 1 || (named.size() == 1 && plain > 0)) {
    std::vector<std::string> names;
    for (const auto& [name, database] : named) names.push_back("'" + name + "'");
    fail(Fault::Data,
         fmt::format("the file holds the databases {}{}; copy the wanted one into a file of its own", join(names, ", "),
                     plain > 0 ? fmt::format(" and {} entries beside them", plain) : ""));
  }
  Pages again(file);  // counts anew
  again.walk(named.empty() ? again.main() : named[0].second, [&](std::uint16_t, const Entry& entry) { each(entry); });
}

}  // namespace lockstep::data::lmdb
