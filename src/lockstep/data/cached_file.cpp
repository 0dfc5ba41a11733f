#include "lockstep/data/cached_file.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

/// Large enough for a parallel file system's stripes, small enough that what is wanted now comes soon.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

/// The word of a piece: untouched, there, or the process that is reading it.
using Word = std::atomic<std::int32_t>;
constexpr std::int32_t kUntouched = 0;
constexpr std::int32_t kThere = -1;
static_assert(sizeof(Word) == sizeof(std::int32_t) && Word::is_always_lock_free);

struct Piece {
  Interval in_file;
  std::uint64_t in_memory = 0;
};

std::vector<Piece> pieces_of(const std::vector<Interval>& intervals) {
  std::vector<Piece> pieces;
  std::uint64_t memory = 0;
  for (const auto& interval : intervals) {
    // Cut at multiples, so that neighbours in a file agree.
    for (std::uint64_t begin = interval.begin; begin < interval.end;) {
      const std::uint64_t end = std::min(interval.end, (begin / kPiece + 1) * kPiece);
      pieces.push_back({{begin, end}, memory});
      memory += end - begin;
      begin = end;
    }
  }
  return pieces;
}

std::size_t bytes_of(const std::vector<Piece>& pieces) {
  if (pieces.empty()) return 0;
  const Piece& last = pieces.back();
  return last.in_memory + last.in_file.end - last.in_file.begin;
}

std::size_t words_at(std::size_t bytes) { return (bytes + alignof(Word) - 1) / alignof(Word) * alignof(Word); }

class CachedFile final : public FileBytes {
 public:
  CachedFile(const std::string& path, std::vector<Interval> intervals, CacheMemory memory)
      : file_(open_file(path)),
        intervals_(std::move(intervals)),
        pieces_(pieces_of(intervals_)),
        memory_(std::move(memory)) {
    if (memory_.size < cache_bytes(intervals_)) fail(Fault::Internal, "the cache is smaller than what it is to hold");
    words_ = reinterpret_cast<Word*>(memory_.bytes.get() + words_at(bytes_of(pieces_)));
  }

  const std::string& path() const noexcept override { return file_->path(); }
  std::uint64_t size() const noexcept override { return file_->size(); }

  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch& scratch) const override {
    const auto after =
        std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                         [](std::uint64_t place, const Piece& piece) { return place < piece.in_file.begin; });
    if (length == 0 || after == pieces_.begin() || !inside(offset, length)) return file_->read(offset, length, scratch);
    const auto first = after - 1;
    for (auto piece = first; piece != pieces_.end() && piece->in_file.begin < offset + length; ++piece) {
      if (word(piece).load(std::memory_order_acquire) != kThere) fetch(piece, scratch);
    }
    return {memory_.bytes.get() + first->in_memory + (offset - first->in_file.begin), length};
  }

 private:
  using PiecePlace = std::vector<Piece>::const_iterator;

  bool inside(std::uint64_t offset, std::uint64_t length) const {
    const auto after =
        std::upper_bound(intervals_.begin(), intervals_.end(), offset,
                         [](std::uint64_t place, const Interval& interval) { return place < interval.begin; });
    return after != intervals_.begin() && offset + length <= (after - 1)->end;
  }
  Word& word(PiecePlace piece) const { return words_[piece - pieces_.begin()]; }

  void fetch(PiecePlace piece, Scratch& scratch) const {
    const profile::Span span("read shared disk");
    Word& state = word(piece);
    const std::int32_t me = getpid();
    while (true) {
      std::int32_t seen = kUntouched;
      if (state.compare_exchange_strong(seen, me, std::memory_order_acquire)) break;
      if (seen == kThere) return;
      // Somebody is at it. If that process is gone, its claim is void.
      if (seen != me && kill(seen, 0) != 0 && errno == ESRCH &&
          state.compare_exchange_strong(seen, me, std::memory_order_acquire))
        break;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    try {
      const Interval& range = piece->in_file;
      const Bytes bytes = file_->read(range.begin, range.end - range.begin, scratch);
      std::memcpy(memory_.bytes.get() + piece->in_memory, bytes.data(), bytes.size());
    } catch (...) {
      state.store(kUntouched, std::memory_order_release);
      throw;
    }
    state.store(kThere, std::memory_order_release);
  }

  std::shared_ptr<const FileBytes> file_;
  std::vector<Interval> intervals_;
  std::vector<Piece> pieces_;
  CacheMemory memory_;
  Word* words_ = nullptr;
};

}  // namespace

std::size_t cache_bytes(const std::vector<Interval>& intervals) {
  const auto pieces = pieces_of(intervals);
  return words_at(bytes_of(pieces)) + pieces.size() * sizeof(Word);
}

std::shared_ptr<const FileBytes> cached_file(const std::string& path, std::vector<Interval> intervals,
                                             CacheMemory memory) {
  return std::make_shared<CachedFile>(path, std::move(intervals), std::move(memory));
}

}  // namespace lockstep::data
