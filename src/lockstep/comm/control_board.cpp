#include "lockstep/comm/control_board.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {

std::shared_ptr<ControlBoard> ControlBoard::create(int ranks) {
  FileDescriptor file(memfd_create("lockstep-board", MFD_CLOEXEC));
  if (!file) fail_errno("cannot create shared memory (memfd_create)", errno);
  return attach(std::move(file), ranks);
}

std::shared_ptr<ControlBoard> ControlBoard::attach(FileDescriptor file, int ranks) {
  return std::shared_ptr<ControlBoard>(new ControlBoard(std::move(file), ranks));
}

ControlBoard::ControlBoard(FileDescriptor file, int ranks)
    : file_(std::move(file)), ranks_(ranks), bytes_(kLine + sizeof(Entry) * static_cast<std::size_t>(ranks)) {
  static_assert(sizeof(Header) <= kLine);
  // All zero is a valid start; whoever comes later finds it that long already.
  if (ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
    fail_errno(fmt::format("cannot size shared memory for {} ranks", ranks), errno);
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory_ == MAP_FAILED) fail_errno("cannot map shared memory", errno);
  header_ = static_cast<Header*>(memory_);
  entries_ = reinterpret_cast<Entry*>(static_cast<std::byte*>(memory_) + kLine);
}

ControlBoard::~ControlBoard() { munmap(memory_, bytes_); }

void ControlBoard::beat(double stale_after_s) noexcept {
  header_->stale_after_ns = static_cast<std::int64_t>(stale_after_s * 1e9);
  header_->beat_ns = monotonic_ns();
}

void ControlBoard::learn(const control::RankStatus& status) noexcept {
  if (status.rank < 0 || status.rank >= ranks_) return;
  Entry& entry = entries_[status.rank];
  entry.waits = status.waits ? 1 : 0;
  entry.place.set(status.place);
  entry.learned_ns = monotonic_ns();
}

// A leader of another host that is stopped, or whose host is, tells no news of its ranks:
// that is news too. But if this host's leader is silent, nothing is known of anybody.
std::optional<control::RankStatus> ControlBoard::status(int rank) const {
  if (rank < 0 || rank >= ranks_) return std::nullopt;
  const Entry& entry = entries_[rank];
  const std::int64_t learned_ns = entry.learned_ns, beat_ns = header_->beat_ns, stale_ns = header_->stale_after_ns;
  const std::int64_t now = monotonic_ns();
  if (learned_ns == 0 || now - beat_ns > stale_ns) return std::nullopt;
  if (now - learned_ns < stale_ns) return control::RankStatus{rank, entry.waits != 0, entry.place.get()};
  return control::RankStatus{rank, false,
                             fmt::format("its host silent for {:.1f} s, before that {}",
                                         static_cast<double>(now - learned_ns) * 1e-9, entry.place.get())};
}

std::string ControlBoard::elsewhere(int world_rank) const {
  const auto known = status(world_rank);
  return known && !known->waits ? known->place : "";
}

}  // namespace lockstep::comm
