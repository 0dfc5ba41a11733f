#include "lockstep/data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <ATen/Context.h>
#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/data/batch_slot.h"
#include "lockstep/data/exchange.h"
#include "lockstep/data/transform.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

using Clock = std::chrono::steady_clock;

/// Rows that a thread takes at once: enough to make the lock cheap, few enough that all threads
/// work on the batch that is wanted next.
constexpr std::int64_t kRowsAtOnce = 16;
/// Batches after which the number of threads is looked at again.
constexpr int kBatchesBetweenLooks = 8;

LoaderOptions checked(LoaderOptions options) {
  const auto& share = options.share;
  if (options.batch < 1) fail(Fault::Usage, fmt::format("a batch of {} samples", options.batch));
  if (share.begin < 0 || share.end <= share.begin || share.of < share.end) {
    fail(Fault::Usage, fmt::format("parts {} to {} of {} are no share of a batch", share.begin, share.end, share.of));
  }
  if (options.on_error != "stop" && options.on_error != "skip") {
    fail(Fault::Usage, fmt::format("on_error = \"{}\"; expected \"stop\" or \"skip\"", options.on_error));
  }
  if (options.threads < 0) fail(Fault::Usage, fmt::format("{} loader threads", options.threads));
  options.ahead = std::max(options.ahead, 2);
  options.pad_multiple = std::max<std::int64_t>(options.pad_multiple, 1);
  options.pinned = options.pinned && at::hasCUDA();
  return options;
}

}  // namespace

/// The threads, the ring, and what they agree on.
class Loader::Worker {
 public:
  Worker(DatasetPtr dataset, std::shared_ptr<const Order> order, LoaderOptions options)
      : dataset_(std::move(dataset)),
        order_(std::move(order)),
        options_(checked(std::move(options))),
        pipeline_(dataset_->schema(), options_.transforms),
        layout_{pipeline_.output(), options_.pad_multiple, options_.pinned},
        slots_(static_cast<std::size_t>(options_.ahead) + 1),
        to_fill_(options_.start),
        to_hand_out_(options_.start) {
    if (order_->length() < (options_.drop_last ? options_.batch : 1)) {
      fail(Fault::Usage,
           fmt::format("an epoch of {} samples has no whole batch of {}", order_->length(), options_.batch));
    }
    if (options_.start.sample < 0 || options_.start.sample > order_->length()) {
      fail(Fault::Usage,
           fmt::format("cannot start at sample {} of an epoch of {}", options_.start.sample, order_->length()));
    }
    // The consumer helps when it waits, so one core is taken care of.
    const int most = options_.threads > 0 ? options_.threads : std::max(1, fair_threads(1) - 1);
    active_ = options_.threads > 0 ? most : std::max(1, most / 2);
    if (options_.exchange != nullptr) {
      exchange_.emplace(*dataset_, *order_, *options_.exchange, options_.share, options_.start);
      threads_.emplace_back([this] { carry(); });
    }
    for (int number = 0; number < most; ++number) threads_.emplace_back([this, number] { work(number); });
    most_ = most;
  }

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_to_do_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  const Batch* next() {
    std::unique_lock lock(mutex_);
    if (Plan plan = plan_of(to_hand_out_); plan.ends_epoch) {
      to_hand_out_ = {to_hand_out_.epoch + 1, 0};
      return nullptr;
    } else {
      to_hand_out_ = plan.after;
    }
    // The one handed out before is free from here on.
    const std::uint64_t number = handed_out_++;
    work_to_do_.notify_all();
    Slot& slot = slots_[number % slots_.size()];
    if (!(slot.number == number && slot.ready)) {
      const profile::Span span("wait for data");
      const auto begin = Clock::now();
      const auto ready = [&] { return slot.number == number && slot.ready; };
      const auto never_comes = [&] { return exchange_ended_ && filled_ <= number; };
      while (!ready() && !never_comes()) {
        if (can_help(number))
          fill_some(lock, own_sample_);
        else
          batch_ready_.wait(lock);
      }
      if (!ready()) wait_for_the_cause();
      waited_s_ += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    tune();
    if (slot.filled.error()) std::rethrow_exception(slot.filled.error());
    return &slot.filled.batch();
  }

  Position position() const noexcept { return to_hand_out_; }
  const Schema& schema() const noexcept { return layout_.schema; }
  int threads() const noexcept { return active_; }
  double waited_s() const noexcept { return waited_s_; }

 private:
  struct Slot {
    BatchSlot filled;
    std::uint64_t number = UINT64_MAX;  // of the batch it holds, since the start
    std::int64_t rows = 0;
    std::int64_t rows_taken = 0;
    std::int64_t rows_left = 0;
    bool ready = false;
    Exchange::Arrived arrived;
  };

  /// The batch that begins at a position.
  struct Plan {
    bool ends_epoch = false;
    Batch about;
    std::int64_t rows = 0;  // of this rank
    Position after;
  };

  Plan plan_of(Position position) const {
    Plan plan;
    const std::int64_t left = order_->length() - position.sample;
    if (left == 0 || (options_.drop_last && left < options_.batch)) {
      plan.ends_epoch = true;
      return plan;
    }
    const std::int64_t count = std::min(options_.batch, left);
    const Share& share = options_.share;
    plan.about.epoch = position.epoch;
    plan.about.position = position.sample;
    plan.about.global_count = count;
    plan.about.first = share.first(count);
    plan.rows = share.last(count) - plan.about.first;
    plan.after = {position.epoch, position.sample + count};
    return plan;
  }

  void work(int number) {
    pthread_setname_np(pthread_self(), "lockstep-load");
    Sample sample;
    std::unique_lock lock(mutex_);
    while (true) {
      work_to_do_.wait(lock, [&] { return stopping_ || (number < active_ && (!begun_.empty() || can_begin())); });
      if (stopping_) return;
      fill_some(lock, sample);
    }
  }

  /// A consumer that waits lends a hand with the batch it waits for: waking another thread would take
  /// longer than filling a few rows.
  bool can_help(std::uint64_t number) const {
    return begun_.empty() ? can_begin() && filled_ <= number : begun_.front()->number <= number;
  }

  /// The next few rows of the first batch that has some. Requires that there are such, or can_begin().
  void fill_some(std::unique_lock<std::mutex>& lock, Sample& sample) {
    if (begun_.empty()) begin(next_plan());
    Slot& slot = *begun_.front();
    const std::int64_t first = slot.rows_taken;
    const std::int64_t last = std::min(first + kRowsAtOnce, slot.rows);
    slot.rows_taken = last;
    if (last == slot.rows) begun_.pop_front();
    lock.unlock();
    fill(slot, first, last, sample);
    lock.lock();
    slot.rows_left -= last - first;
    if (slot.rows_left > 0) return;
    lock.unlock();
    finish(slot.filled);
    lock.lock();
    slot.ready = true;
    batch_ready_.notify_one();
  }

  /// Where samples come from other ranks: one thread fetches batch after batch for the others.
  void carry() {
    pthread_setname_np(pthread_self(), "lockstep-carry");
    std::unique_lock lock(mutex_);
    while (true) {
      work_to_do_.wait(lock, [&] { return stopping_ || room_to_begin(); });
      const bool stopping = stopping_;
      Plan plan = next_plan();
      lock.unlock();
      std::optional<Exchange::Arrived> arrived;
      std::exception_ptr error;
      try {
        arrived = exchange_->round(plan.about, stopping);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (!arrived && !error) {
        exchange_ended_ = true;
        batch_ready_.notify_one();
        return;
      }
      Slot& slot = begin(std::move(plan));
      if (error) {
        exchange_error_ = error;
        exchange_ended_ = true;
        slot.filled.fail(error);
        begun_.pop_back();
        slot.ready = true;
        batch_ready_.notify_one();
        return;
      }
      slot.arrived = std::move(*arrived);
      work_to_do_.notify_all();
    }
  }

  /// Where samples come from other ranks, only the thread that fetches them begins a batch.
  bool can_begin() const { return !exchange_ && room_to_begin(); }
  /// The ring has a place that the consumer does not use.
  bool room_to_begin() const { return filled_ + 1 < handed_out_ + static_cast<std::uint64_t>(slots_.size()); }

  Plan next_plan() {
    Plan plan = plan_of(to_fill_);
    if (plan.ends_epoch) {
      to_fill_ = {to_fill_.epoch + 1, 0};
      plan = plan_of(to_fill_);
    }
    to_fill_ = plan.after;
    return plan;
  }

  Slot& begin(Plan plan) {
    Slot& slot = slots_[filled_ % slots_.size()];
    slot.number = filled_++;
    slot.rows = slot.rows_left = plan.rows;
    slot.rows_taken = 0;
    slot.ready = false;
    begun_.push_back(&slot);
    try {
      slot.filled.begin(layout_, std::move(plan.about), plan.rows);
    } catch (...) {  // no memory
      slot.filled.fail(std::current_exception());
      slot.rows = slot.rows_left = 0;
    }
    return slot;
  }

  /// Another rank has destroyed its loader while this one wants more. If it failed, its error is what
  /// everybody shall read; if it goes on with something else, the group's watchdog names it.
  [[noreturn]] void wait_for_the_cause() {
    if (exchange_error_) std::rethrow_exception(exchange_error_);
    options_.exchange->barrier("more samples");
    fail(Fault::Comm, "another rank reads no more samples: all ranks must take the same number of batches");
  }

  void fill(Slot& slot, std::int64_t first, std::int64_t last, Sample& sample) const {
    const Batch& about = slot.filled.batch();
    std::array<std::int64_t, kRowsAtOnce> ids;
    for (std::int64_t row = first; row < last; ++row) {
      ids[static_cast<std::size_t>(row - first)] = order_->at(about.epoch, about.position + about.first + row);
    }
    for (std::int64_t row = first; row < last; ++row) {
      const auto place = static_cast<std::size_t>(row - first);
      // The next one is on its way from memory while this one is copied.
      if (!exchange_ && row + 1 < last) dataset_->prefetch(ids[place + 1]);
      fill_row(slot, row, ids[place], sample);
    }
  }

  void fill_row(Slot& slot, std::int64_t row, std::int64_t id, Sample& sample) const {
    try {
      if (exchange_)
        take_arrived(slot.arrived.rows[static_cast<std::size_t>(row)], sample);
      else
        dataset_->read(id, sample);
      try {
        const auto epoch = static_cast<std::uint64_t>(slot.filled.batch().epoch);
        pipeline_.apply(sample, mix(options_.seed, epoch), id);
        slot.filled.set(row, id, sample);
      } catch (Error& error) {
        throw error.during("preparing " + dataset_->name(id));
      }
    } catch (const Error& error) {
      if (options_.on_error == "skip") return slot.filled.skip(row, {dataset_->name(id), error.what()});
      slot.filled.fail(std::current_exception());
    } catch (...) {
      slot.filled.fail(std::current_exception());
    }
  }

  static void finish(BatchSlot& slot) {
    try {
      slot.finish();
    } catch (...) {
      slot.fail(std::current_exception());
    }
  }

  // One thread more while the consumer waits more than a fiftieth of its time, one fewer while it
  // hardly waits at all: an idle core is worth more to the model.
  void tune() {
    if (options_.threads > 0 || ++batches_ % kBatchesBetweenLooks != 0) return;
    const auto now = Clock::now();
    const double passed_s = std::chrono::duration<double>(now - looked_at_).count();
    const double share = (waited_s_ - waited_before_s_) / std::max(passed_s, 1e-9);
    looked_at_ = now;
    waited_before_s_ = waited_s_;
    calm_looks_ = share < 0.001 ? calm_looks_ + 1 : 0;
    if (share > 0.02 && active_ < most_) {
      ++active_;
      work_to_do_.notify_all();
    } else if (calm_looks_ >= 8 && active_ > 1) {
      --active_;
      calm_looks_ = 0;
    }
  }

  const DatasetPtr dataset_;
  const std::shared_ptr<const Order> order_;
  const LoaderOptions options_;
  const Pipeline pipeline_;
  const BatchSlot::Layout layout_;
  std::optional<Exchange> exchange_;

  std::mutex mutex_;
  std::condition_variable work_to_do_;
  std::condition_variable batch_ready_;
  std::vector<Slot> slots_;
  bool stopping_ = false;
  bool exchange_ended_ = false;
  std::exception_ptr exchange_error_;  // of this rank: it has no more rounds
  Position to_fill_;                   // where the next batch to begin begins
  std::uint64_t filled_ = 0;           // batches begun
  std::deque<Slot*> begun_;            // those with rows that nobody has taken
  Position to_hand_out_;
  std::uint64_t handed_out_ = 0;
  Sample own_sample_;  // of the consumer, when it helps

  int most_ = 1;
  std::atomic<int> active_ = 1;
  int batches_ = 0;
  int calm_looks_ = 0;
  Clock::time_point looked_at_ = Clock::now();
  double waited_s_ = 0;
  double waited_before_s_ = 0;
  std::vector<std::thread> threads_;
};

Loader::Loader(DatasetPtr dataset, std::shared_ptr<const Order> order, LoaderOptions options)
    : worker_(std::make_unique<Worker>(std::move(dataset), std::move(order), std::move(options))) {}
Loader::~Loader() = default;
const Batch* Loader::next() { return worker_->next(); }
Position Loader::position() const noexcept { return worker_->position(); }
const Schema& Loader::schema() const noexcept { return worker_->schema(); }
int Loader::threads() const noexcept { return worker_->threads(); }
double Loader::waited_s() const noexcept { return worker_->waited_s(); }

}  // namespace lockstep::data
