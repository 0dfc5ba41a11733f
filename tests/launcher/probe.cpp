// What the launcher's tests launch: `probe MODE`, one small behaviour per mode. Modes
// that misbehave do so on the last rank while the others wait for it in a collective.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/environment.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/profile/span.h"

namespace {

using lockstep::comm::Runtime;

int number(const char* name) { return lockstep::comm::environment::get_int(name, -1, 0, 1 << 30); }
int rank() { return number("LOCKSTEP_RANK"); }

void say(const std::string& text) {
  std::cout << text;
  std::cout.flush();
}

// ---- modes without a Runtime: any program can be launched -----------------------------------

int environment() {
  std::string line = "environment";
  for (const char* name : {"LOCKSTEP_RANK", "LOCKSTEP_SIZE", "LOCKSTEP_LOCAL_RANK", "LOCKSTEP_LOCAL_SIZE",
                           "LOCKSTEP_TIMEOUT", "LOCKSTEP_RESTART", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    line += fmt::format(" {}={}", name, value != nullptr ? value : "-");
  }
  line += fmt::format(" cpus={} leads={} segment={}\n", lockstep::usable_cpus().size(), getpgrp() == getpid(),
                      fcntl(number("LOCKSTEP_SEGMENT"), F_GETFD) >= 0);
  say(line);
  return 0;
}

// Halves of lines, so that anything but whole lines would mix ranks.
int lines() {
  const std::string half(200, static_cast<char>('a' + rank()));
  for (int i = 0; i < 300; ++i) {
    say(half);
    say(half + "\n");
  }
  say(fmt::format("last of {}", rank()));
  return 0;
}

int flood() {
  for (;;) say(std::string(100, 'x') + "\n");
}

/// The last rank fails when the others have filled every pipe.
int flood_and_fail() {
  if (rank() != number("LOCKSTEP_SIZE") - 1) return flood();
  usleep(500'000);
  return 3;
}

int streams() {
  say("to stdout\n");
  std::cerr << "to stderr\n";
  return 0;
}

int long_line() {
  say(std::string(3 << 20, 'x') + "\n");
  return 0;
}

int input() {
  std::string text;
  std::getline(std::cin, text);
  say(fmt::format("rank {} read '{}'\n", rank(), text));
  return 0;
}

int exit_with_3() {
  if (rank() != 1) pause();
  std::cerr << "last words\n";
  return 3;
}

int requeue() { return 75; }

int sleep_with_child() {
  if (fork() == 0) {
    pause();
    _exit(0);
  }
  say(fmt::format("ready {}\n", rank()));
  pause();
  return 0;
}

int leave_child() {
  if (fork() == 0) pause();
  return 0;
}

/// Three processes in two sessions, out of reach of what is sent to the rank's group. Returns when they are there.
void leave_session() {
  int ready[2];
  if (pipe(ready) != 0) std::abort();
  if (fork() != 0) {
    char bytes[3];
    for (ssize_t got = 0; got < 3;) got += read(ready[0], bytes, 1);
    return;
  }
  setsid();
  if (fork() != 0 && fork() == 0) setsid();
  say(fmt::format("apart {}\n", rank()));
  (void)!write(ready[1], "x", 1);
  for (;;) pause();
}

int leave_sessions() {
  leave_session();
  return 0;
}

int sleep_beside_sessions() {
  leave_session();
  for (;;) pause();
}

volatile sig_atomic_t caught = 0;

int catch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    std::signal(signal, [](int s) { caught = s; });
  }
  say(fmt::format("ready {}\n", rank()));
  for (;;) {
    if (caught == 0) usleep(10'000);
    const int signal = caught;
    if (signal == 0) continue;
    caught = 0;
    say(fmt::format("rank {} got {}\n", rank(), signal));
    if (signal != SIGUSR1) return 0;
  }
}

int ignore_signals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
  say(fmt::format("ready {}\n", rank()));
  for (;;) pause();
}

int fail_twice() {
  const int restart = number("LOCKSTEP_RESTART");
  say(fmt::format("attempt {}\n", restart));
  return restart < 2 ? 1 : 0;
}

// ---- modes with one -------------------------------------------------------------------------

/// The last rank does `deed`, the others wait for it and say how they were released.
void misbehave(Runtime& runtime, const std::function<void()>& deed) {
  auto tensor = at::ones({4});
  runtime.world().all_reduce_(tensor, lockstep::comm::ReduceOp::Sum, {"warm up"}).wait();
  if (runtime.rank() == runtime.size() - 1) {
    const lockstep::profile::Span span("the deed");
    usleep(200'000);  // so that the span is on the status page
    deed();
    return;
  }
  try {
    runtime.world().all_reduce_(tensor, lockstep::comm::ReduceOp::Sum, {"gradients"}).wait();
  } catch (const lockstep::Error& error) {
    say(fmt::format("released: {}\n", error.what()));
    throw;
  }
}

const std::map<std::string, std::function<int()>> kPlain = {
    {"environment", environment},
    {"lines", lines},
    {"flood", flood},
    {"flood_and_fail", flood_and_fail},
    {"streams", streams},
    {"long_line", long_line},
    {"input", input},
    {"exit_with_3", exit_with_3},
    {"requeue", requeue},
    {"sleep", sleep_with_child},
    {"leave_child", leave_child},
    {"leave_sessions", leave_sessions},
    {"sleep_beside_sessions", sleep_beside_sessions},
    {"catch", catch_signals},
    {"ignore", ignore_signals},
    {"fail_twice", fail_twice},
};

const std::map<std::string, std::function<void()>> kDeeds = {
    {"killed", [] { raise(SIGKILL); }},
    {"stopped", [] { raise(SIGSTOP); }},
    {"endless",
     [] {
       for (volatile bool on = true; on;) {
       }
     }},
    {"throws", [] { lockstep::fail(lockstep::Fault::Data, "shard 7 is torn"); }},
    {"misused", [] { lockstep::fail(lockstep::Fault::Usage, "no such dataset"); }},
    {"returns", [] {}},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (const auto plain = kPlain.find(mode); plain != kPlain.end()) return plain->second();
  const auto deed = kDeeds.find(mode);
  if (deed == kDeeds.end()) {
    std::cerr << "unknown mode " << mode << '\n';
    return 2;
  }
  return lockstep::comm::run_program(argc, argv, [&](Runtime& runtime) { misbehave(runtime, deed->second); });
}
