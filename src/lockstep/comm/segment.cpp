#include "lockstep/comm/segment.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/pages.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/version.h"

namespace lockstep::comm {
namespace {

constexpr std::uint64_t kMagic = 0x4c4f434b53544550;  // "LOCKSTEP"

struct Layout {
  std::size_t status_at, doorbell_at, channel_at, arenas_at, arena_bytes, total;

  explicit Layout(int ranks) {
    status_at = round_up(sizeof(SegmentHeader), kPage);
    doorbell_at = round_up(status_at + ranks * sizeof(StatusPage), kPage);
    channel_at = round_up(doorbell_at + ranks * sizeof(Doorbell), kPage);
    arenas_at = round_up(channel_at + channel_bytes(ranks), kHugePage);
    // Sparse: only touched pages cost memory. An arena may grow to all of the
    // host's memory; together they stay well inside the 47 bits of addresses.
    const std::size_t memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * kPage;
    arena_bytes = round_up(std::min(memory, (std::size_t{1} << 44) / static_cast<std::size_t>(ranks)), kHugePage);
    total = arenas_at + arena_bytes * static_cast<std::size_t>(ranks);
  }
};

void fill_header(SegmentHeader& header, int ranks, const Layout& layout) {
  std::strncpy(header.version, kVersion, sizeof header.version - 1);
  header.ranks = ranks;
  header.usable_cpus = static_cast<std::int32_t>(usable_cpus().size());
  header.arena_bytes = layout.arena_bytes;
  header.arenas_at = layout.arenas_at;
  header.total_bytes = layout.total;
  header.magic = kMagic;
}

void check_ranks(int ranks) {
  if (ranks < 1 || ranks > kMostRanksOfHost) {
    fail(Fault::Usage, fmt::format("{} ranks on one host; between 1 and {} are possible", ranks, kMostRanksOfHost));
  }
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) noexcept {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

std::int64_t monotonic_ns() noexcept {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string describe_place(const StatusPage& page, std::int64_t now_ns) {
  if (static_cast<RankPhase>(page.phase.load()) == RankPhase::Left) return "it has ended";
  const auto seconds_since = [&](std::int64_t then_ns) { return static_cast<double>(now_ns - then_ns) * 1e-9; };
  const std::string stopped =
      seems_stopped(page, now_ns) ? fmt::format("stopped for {:.1f} s ", seconds_since(page.beat_ns)) : "";
  if (page.span.empty()) return stopped + "outside any span";
  return fmt::format("{}in span '{}' for {:.1f} s", stopped, page.span.get(), seconds_since(page.span_since_ns));
}

bool seems_stopped(const StatusPage& page, std::int64_t now_ns) {
  constexpr std::int64_t kSilent_ns = 1'500'000'000;  // of beats 20 times a second
  return static_cast<RankPhase>(page.phase.load()) == RankPhase::Joined && now_ns - page.beat_ns > kSilent_ns;
}

bool waits(const StatusPage& page) {
  const bool here =
      static_cast<RankPhase>(page.phase.load()) != RankPhase::Left && !seems_stopped(page, monotonic_ns());
  return here && !page.waiting_for.empty();
}

std::string describe_cause(const AbortRecord& record) {
  const std::string message(record.message, strnlen(record.message, sizeof record.message));
  const std::string who = fmt::format("rank {}", record.rank);
  return record.rank < 0 || message.starts_with(who + " ") ? message : fmt::format("{}: {}", who, message);
}

FileDescriptor Segment::create(int ranks) {
  check_ranks(ranks);
  const Layout layout(ranks);
  FileDescriptor file(memfd_create("lockstep", 0));
  if (!file) fail_errno("cannot create shared memory (memfd_create)", errno);
  if (ftruncate(file.get(), static_cast<off_t>(layout.total)) != 0) {
    fail_errno(fmt::format("cannot size shared memory for {} ranks", ranks), errno);
  }
  void* front = mmap(nullptr, kPage * 2, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (front == MAP_FAILED) fail_errno("cannot map shared memory", errno);
  static_assert(sizeof(SegmentHeader) <= kPage * 2);
  fill_header(*static_cast<SegmentHeader*>(front), ranks, layout);
  munmap(front, kPage * 2);
  return file;
}

std::shared_ptr<Segment> Segment::attach(int descriptor) {
  SegmentHeader header;
  if (pread(descriptor, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) || header.magic != kMagic) {
    fail(Fault::Usage,
         fmt::format("LOCKSTEP_SEGMENT={} is not the launcher's shared memory; start the program with 'lockstep "
                     "launch', or unset it",
                     descriptor));
  }
  if (std::strncmp(header.version, kVersion, sizeof header.version) != 0) {
    fail(Fault::Usage,
         fmt::format("this program is Lockstep {} but it was launched by {}; install one version everywhere", kVersion,
                     header.version));
  }
  void* base = mmap(nullptr, header.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) {
    fail_errno(
        fmt::format("cannot map {} GiB of address space for shared memory (see 'ulimit -v')", header.total_bytes >> 30),
        errno);
  }
  madvise(base, header.total_bytes, MADV_DONTDUMP);
  return std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(base), header.total_bytes, header.ranks, false));
}

std::shared_ptr<Segment> Segment::for_threads(int ranks) {
  check_ranks(ranks);
  Layout layout(ranks);
  layout.total = layout.arenas_at;  // any memory of the process is shared already
  layout.arena_bytes = 0;
  void* base = mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail_errno("cannot map memory for ranks as threads", errno);
  auto segment = std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(base), layout.total, ranks, true));
  fill_header(segment->header(), ranks, layout);
  return segment;
}

Segment::Segment(std::byte* base, std::size_t bytes, int ranks, bool threads)
    : base_(base), bytes_(bytes), threads_(threads) {
  const Layout layout(ranks);
  status_ = reinterpret_cast<StatusPage*>(base + layout.status_at);
  doorbells_ = reinterpret_cast<Doorbell*>(base + layout.doorbell_at);
  world_channel_ = base + layout.channel_at;
}

Segment::~Segment() { munmap(base_, bytes_); }

void Segment::abort(int rank, int exit_code, Fault fault, const std::string& message, bool said) const noexcept {
  AbortRecord& record = header().abort;
  std::uint32_t none = 0;
  if (record.state.compare_exchange_strong(none, 1)) {
    record.rank = rank;
    record.exit_code = exit_code;
    record.fault = static_cast<int>(fault);
    std::strncpy(record.message, message.c_str(), sizeof record.message - 1);
    record.state.store(2, std::memory_order_release);
    // Before anyone is released: a process manager ends all ranks as soon as one ends badly.
    if (!said && header().ranks_say_cause != 0) fmt::print(stderr, "lockstep: {}\n", describe_cause(record));
  }
  for (int r = 0; r < ranks(); ++r) ring(r);
}

void Segment::throw_abort() const {
  const AbortRecord& record = header().abort;
  fail(static_cast<Fault>(record.fault), record.message);
}

void Segment::sleep(int rank, std::uint32_t rings, std::int64_t timeout_ns) const noexcept {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  futex(doorbell(rank).rings, FUTEX_WAIT, rings, &timeout);
}

void Segment::ring(int rank) const noexcept {
  Doorbell& bell = doorbell(rank);
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell.sleeping.load(std::memory_order_seq_cst) != 0) futex(bell.rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void Segment::keep(std::shared_ptr<void> memory) {
  const std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(memory));
}

void Segment::ring_sleepers() const noexcept {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (doorbell(rank).sleeping.load(std::memory_order_relaxed) != 0) ring(rank);
  }
}

Sleep::Sleep(const Segment& segment, int rank, std::uint32_t rings_seen) noexcept
    : segment_(segment), rank_(rank), rings_(rings_seen) {
  Doorbell& bell = segment.doorbell(rank);
  bell.sleeping.fetch_add(1, std::memory_order_seq_cst);
  segment.header().sleepers.fetch_add(1, std::memory_order_seq_cst);
}

Sleep::~Sleep() {
  segment_.header().sleepers.fetch_sub(1, std::memory_order_relaxed);
  segment_.doorbell(rank_).sleeping.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lockstep::comm
