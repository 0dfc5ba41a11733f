#include "lockstep/comm/launched_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/comm/child_process.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/input_pump.h"
#include "lockstep/comm/line_forwarder.h"
#include "lockstep/comm/orphans.h"
#include "lockstep/comm/outlet.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Ranks that know of an abort end by themselves; this is for those that do not.
constexpr seconds kGraceAfterFailure{3};
constexpr seconds kFromTermToKill{2};
constexpr seconds kKillAgain{1};
// A process that cannot be killed may hold a pipe open for ever.
constexpr milliseconds kDrain{500};
// After a signal of the user, a reader that takes nothing for so long is not waited for.
constexpr seconds kReaderIsGone{1};
// How soon an abort is seen that neither prints nor ends a process.
constexpr milliseconds kTick{100};

std::string name_of_signal(int signal) { return fmt::format("signal {} ({})", signal, strsignal(signal)); }

/// Two pipes a rank, and room for what else is open. Returns the limit that children get back.
rlimit allow_open_files(int ranks) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlim_t needed = 2 * static_cast<rlim_t>(ranks) + 64;
  if (before.rlim_cur >= needed) return before;
  rlimit raised = before;
  raised.rlim_cur = needed;
  if (needed > before.rlim_max || setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    fail(Fault::Usage,
         fmt::format("{} ranks need {} open files, but the limit is {}; raise it with 'ulimit -n' or start "
                     "fewer ranks",
                     ranks, needed, before.rlim_max));
  }
  return before;
}

/// Our standard streams. Where both are one file they are one outlet, else half a line of the one
/// could stand in the other.
class Outlets {
 public:
  Outlet& output() noexcept { return output_; }
  Outlet& errors() noexcept { return errors_ ? *errors_ : output_; }
  bool empty() noexcept { return output().empty() && errors().empty(); }
  void flush() {
    output().flush();
    errors().flush();
  }
  std::size_t written_bytes() noexcept { return output().written_bytes() + errors().written_bytes(); }

 private:
  static bool one_file() {
    struct stat a{}, b{};
    return fstat(STDOUT_FILENO, &a) == 0 && fstat(STDERR_FILENO, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
  }

  Outlet output_{STDOUT_FILENO};
  std::optional<Outlet> errors_ = one_file() ? std::nullopt : std::optional<Outlet>(STDERR_FILENO);
};

struct Rank {
  ChildProcess process;
  LineForwarder output;
  LineForwarder errors;
  std::optional<ChildProcess::End> end;
  bool straggles = false;  // and was named for it

  Rank(const ChildOptions& options, const Guardian& guardian, Outlets& outlets, const std::string& prefix)
      : process(options, guardian),
        output(process.take_output(), outlets.output(), prefix),
        errors(process.take_errors(), outlets.errors(), prefix) {}
};

class LaunchedRun {
 public:
  LaunchedRun(const LaunchPlan& plan, int restart, SignalInbox& signals, Guardian& guardian)
      : signals_(signals),
        guardian_{guardian},
        file_(Segment::create(plan.ranks)),
        segment_(Segment::attach(file_.get())),
        timeout_s_(plan.timeout_s),
        grace_(std::chrono::ceil<milliseconds>(std::chrono::duration<double>(plan.grace_s))) {
    copy_tuning(plan.ranks);
    start(plan, restart);
  }
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  RunOutcome see_to_the_end() {
    while (running() > 0) {
      wait(next_wake());
      for (const int signal : signals_.take()) {
        if (signal == SIGCHLD) orphans_.reap();  // of a long run they would pile up
        pass_on(signal);
      }
      notice_ends();
      notice_stragglers();
      notice_abort();
      keep_deadlines();
      forward_output();
    }
    for (const auto& rank : ranks_) rank.process.signal_group(SIGKILL);
    orphans_.end();
    drain();
    const int lost = outlets_.output().lost();
    if (lost != 0) say(fmt::format("standard output was lost: {}", std::strerror(lost)));
    const int code = exit_code();
    return {lost != 0 && code == 0 ? exit_code::kFailed : code, stopping_signal_ != 0};
  }

 private:
  void copy_tuning(int ranks) {
    try {
      const auto tuning = cached_tuning(ranks);
      auto& place = segment_->header().calibration;
      if (tuning && tuning->json().size() < sizeof place) std::strncpy(place, tuning->json().c_str(), sizeof place - 1);
    } catch (const Error& error) {
      if (error.fault() == Fault::Usage) throw;
      say(fmt::format("warning: {}", error.what()));
    }
  }

  void start(const LaunchPlan& plan, int restart) {
    ChildOptions options;
    options.command = plan.command;
    options.signal_mask = signals_.mask_before();
    options.open_files = allow_open_files(plan.ranks);
    const std::string size = std::to_string(plan.ranks);
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const std::string number = std::to_string(rank);
      auto variables = plan.environment;
      variables.insert(variables.end(), {{environment::kRank, number},
                                         {environment::kSize, size},
                                         {environment::kLocalRank, number},
                                         {environment::kLocalSize, size},
                                         {environment::kSegment, std::to_string(file_.get())},
                                         {environment::kLaunch, guardian_.guardian.mark()},
                                         {environment::kRestart, std::to_string(restart)}});
      options.environment = environment_with(variables);
      options.cpus = plan.places[static_cast<std::size_t>(rank)].cpus;
      options.input = rank == 0 ? input_.for_child() : -1;
      ranks_.emplace_back(options, guardian_.guardian, outlets_, plan.prefix ? fmt::format("[{}] ", rank) : "");
      orphans_.spare(ranks_.back().process.pid());
      input_.child_started();
    }
  }

  std::ptrdiff_t running() const {
    return std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.end; });
  }

  // ---- waiting ---------------------------------------------------------------------------

  Clock::time_point next_wake() const {
    auto when = Clock::now() + kTick;
    if (term_at_) when = std::min(when, *term_at_);
    if (kill_at_) when = std::min(when, *kill_at_);
    return when;
  }

  void wait(Clock::time_point until) {
    std::vector<pollfd> files = {
        {signals_.descriptor(), POLLIN, 0}, input_.wanted(), outlets_.output().wanted(), outlets_.errors().wanted()};
    for (const auto& rank : ranks_) {
      files.push_back({rank.output.descriptor(), POLLIN, 0});
      files.push_back({rank.errors.descriptor(), POLLIN, 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    poll(files.data(), files.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (files[1].revents != 0) input_.move();
  }

  // ---- signals ---------------------------------------------------------------------------

  void send_to_all(int signal) const {
    for (const auto& rank : ranks_) {
      if (!rank.end) rank.process.signal_group(signal);
    }
  }

  void pass_on(int signal) {
    if (signal == SIGCHLD || signal == SIGPIPE) return;
    if (signal == SIGINT && stopping_signal_ == SIGINT) {
      kill_at_ = Clock::now();
      return;
    }
    send_to_all(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2) return;
    if (stopping_signal_ == 0) stopping_signal_ = signal;
    if (signal == SIGTERM || signal == SIGHUP) kill_by(Clock::now() + grace_);
  }

  void kill_by(Clock::time_point when) { kill_at_ = kill_at_ ? std::min(*kill_at_, when) : when; }

  void keep_deadlines() {
    const auto now = Clock::now();
    if (term_at_ && now >= *term_at_) {
      send_to_all(SIGTERM);
      send_to_all(SIGCONT);  // a stopped process would keep the signal waiting
      term_at_.reset();
    }
    if (kill_at_ && now >= *kill_at_) {
      send_to_all(SIGKILL);
      kill_at_ = now + kKillAgain;
    }
  }

  // ---- ends and their causes ---------------------------------------------------------------

  void notice_ends() {
    for (int rank = 0; rank < segment_->ranks(); ++rank) {
      Rank& process = ranks_[static_cast<std::size_t>(rank)];
      if (process.end) continue;
      process.end = process.process.end();
      if (process.end) ended(rank, process);
    }
  }

  void ended(int rank, Rank& process) {
    const ChildProcess::End& end = *process.end;
    if (!end.killed && (end.code == exit_code::kDone || end.code == exit_code::kRequeue)) {
      if (end.code != exit_code::kDone && first_code_ == 0) first_code_ = end.code;
      segment_->status(rank).phase = static_cast<std::uint32_t>(RankPhase::Left);
      segment_->notify();
      last_good_end_ = Clock::now();
      return;
    }
    notice_abort();
    const int code = end.killed ? exit_code::kSignal + end.code : end.code;
    if (end.killed && stopping_signal_ != 0) {
      set_first_cause(-1, exit_code::kSignal + stopping_signal_, "ended by " + name_of_signal(stopping_signal_));
    } else {
      set_first_cause(rank, code, describe(rank, process));
    }
    // What it said at last explains more than we can.
    forward_rest(process);
    notice_abort();
  }

  std::string describe(int rank, const Rank& process) const {
    std::string text = fmt::format("rank {} (process {}) ", rank, process.process.pid());
    text += process.end->killed ? "was killed by " + name_of_signal(process.end->code)
                                : fmt::format("ended with exit code {}", process.end->code);
    const StatusPage& page = segment_->status(rank);
    if (!page.span.empty()) text += fmt::format(" in span '{}'", page.span.get());
    if (!page.waiting_for.empty()) text += fmt::format(" while waiting in {}", page.waiting_for.get());
    return text;
  }

  /// Ranks that others have left alone for long: no collective waits for them any more. One that
  /// is stopped fails the run; one that computes is named, once, and waited for.
  void notice_stragglers() {
    const auto now = Clock::now();
    if (!last_good_end_ || timeout_s_ <= 0 || failed_ ||
        std::chrono::duration<double>(now - *last_good_end_).count() < timeout_s_) {
      return;
    }
    for (int rank = 0; rank < segment_->ranks(); ++rank) {
      const StatusPage& page = segment_->status(rank);
      Rank& process = ranks_[static_cast<std::size_t>(rank)];
      if (process.end || static_cast<RankPhase>(page.phase.load()) != RankPhase::Joined) continue;
      const bool stopped = seems_stopped(page, monotonic_ns());
      if (!stopped && process.straggles) continue;
      const std::string place = fmt::format("rank {} (process {}) has not ended, {}", rank, page.pid.load(),
                                            describe_place(page, monotonic_ns()));
      if (stopped) {
        set_first_cause(rank, exit_code::kFailed, place);
      } else {
        process.straggles = true;
        say(fmt::format("warning: {}; the others are waiting for its end", place));
      }
    }
  }

  void set_first_cause(int rank, int code, const std::string& message) {
    if (first_failure_.empty()) {
      first_failure_ = message;
      first_code_ = code;
    }
    segment_->abort(rank, code, Fault::Comm, message);
  }

  /// Says the first cause, once. A rank killed while it wrote the record leaves it unreadable: then ours.
  void notice_abort() {
    const bool aborted = segment_->aborted();
    if (failed_ || (!aborted && first_failure_.empty())) return;
    failed_ = true;
    const auto now = Clock::now();
    term_at_ = now + kGraceAfterFailure;
    kill_by(now + kGraceAfterFailure + kFromTermToKill);
    say(aborted ? describe_cause(segment_->header().abort) : first_failure_);
  }

  void say(const std::string& message) { outlets_.errors().put(fmt::format("lockstep: {}\n", message)); }

  int exit_code() const {
    if (segment_->aborted()) return segment_->header().abort.exit_code;
    return first_code_;
  }

  // ---- output ------------------------------------------------------------------------------

  /// True if ranks had written something.
  bool forward_output() {
    bool took = false;
    outlets_.flush();
    for (auto& rank : ranks_) {
      for (auto* stream : {&rank.output, &rank.errors}) {
        if (stream->ended()) continue;
        took |= stream->take();
        // Between reading and writing: whoever aborts and then speaks is heard in that order.
        notice_abort();
        stream->pass_on();
      }
    }
    return took;
  }

  static void forward_rest(Rank& rank) {
    constexpr int kReads = 32;  // more than a pipe holds: children of the rank may write on
    for (auto* stream : {&rank.output, &rank.errors}) {
      for (int i = 0; i < kReads && stream->take(); ++i) stream->pass_on();
      stream->pass_on();
    }
  }

  /// Until whoever reads our streams has all that ranks wrote, however slowly, or the user does not want to wait.
  void drain() {
    const auto open = [](const Rank& rank) { return !rank.output.ended() || !rank.errors.ended(); };
    auto moved_at = Clock::now();
    for (;;) {
      const std::size_t written_bytes = outlets_.written_bytes();
      const bool took = forward_output();
      const auto now = Clock::now();
      if (took || outlets_.written_bytes() != written_bytes) moved_at = now;
      if (outlets_.empty() && (std::none_of(ranks_.begin(), ranks_.end(), open) || now >= moved_at + kDrain)) return;
      if (stopping_signal_ != 0 && now >= moved_at + kReaderIsGone) return;
      wait(now + kTick);
      for (const int signal : signals_.take()) {
        if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) continue;
        if (stopping_signal_ != 0) return;
        stopping_signal_ = signal;
        if (first_code_ == 0) first_code_ = exit_code::kSignal + signal;
      }
    }
  }

  SignalInbox& signals_;
  // Stands before the ranks: it forgets them when they are gone.
  struct Guarded {
    Guardian& guardian;
    ~Guarded() { guardian.forget_all(); }
  } guardian_;
  FileDescriptor file_;
  std::shared_ptr<Segment> segment_;
  InputPump input_;
  Orphans orphans_;  // before the ranks: what they leave is ended after them
  Outlets outlets_;
  std::deque<Rank> ranks_;

  double timeout_s_;
  milliseconds grace_;  // after SIGTERM
  std::optional<Clock::time_point> last_good_end_;
  int stopping_signal_ = 0;  // the first of the user's that ends the run
  bool failed_ = false;
  std::string first_failure_;
  int first_code_ = 0;
  std::optional<Clock::time_point> term_at_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace

RunOutcome run_once(const LaunchPlan& plan, int restart, SignalInbox& signals, Guardian& guardian) {
  return LaunchedRun(plan, restart, signals, guardian).see_to_the_end();
}

}  // namespace lockstep::comm
