#include "interrupt.h"

#include <atomic>

namespace lockstep::apps {
namespace {

/// A handler reaches nothing but what is global.
std::atomic<int> noted = 0;
static_assert(std::atomic<int>::is_always_lock_free);

struct Interrupted {};

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  struct sigaction note{};
  note.sa_handler = [](int signal) { noted = signal; };
  note.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    // Under nohup, or in the background of a script, they are to be ignored.
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &note, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

void Interrupt::check() const {
  if (noted != 0) throw Interrupted();
}

void until_interrupted(const std::function<void(const Interrupt& interrupt)>& work) {
  try {
    const Interrupt interrupt;
    work(interrupt);
  } catch (const Interrupted&) {
    (void)raise(noted);
  }
}

}  // namespace lockstep::apps
