#include "misbehaving.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

constexpr const char kProgram[] = "misbehave";

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Misbehaving::Misbehaving(const std::vector<std::string>& command) : files_before_(our_files()), run_(command) {}

std::vector<pid_t> Misbehaving::ranks() const {
  std::vector<pid_t> found;
  for (const pid_t process : run_.processes()) {
    if (read("/proc/" + std::to_string(process) + "/comm") == kProgram + std::string("\n")) found.push_back(process);
  }
  return found;
}

void Misbehaving::signal(int rank, int number) const {
  const pid_t process = run_.rank(rank, kProgram);
  ASSERT_GT(process, 0) << "rank " << rank << " is not there";
  kill(process, number);
}

void Misbehaving::deed() { deed_s_ = now_s(); }

double Misbehaving::until_ranks_end(double timeout_s) {
  if (deed_s_ == 0) {
    if (!run_.waits_for("deed")) return -1;
    deed();
  }
  for (;;) {
    const double now = now_s();
    if (ranks().empty()) return now - deed_s_;
    if (now - deed_s_ > timeout_s) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int Misbehaving::exit_code() {
  if (exit_code_ < 0) exit_code_ = run_.wait(15);
  return exit_code_;
}

int Misbehaving::expect_nothing_left() {
  const int code = exit_code();
  EXPECT_GT(code, 0) << words();
  EXPECT_TRUE(run_.all_gone(5)) << run_.processes().size() << " processes left";
  for (const auto& name : our_files()) EXPECT_TRUE(files_before_.contains(name)) << name << " left";
  return code;
}

void expect_told(Misbehaving& misbehaving, double within_s, const std::vector<std::string>& parts) {
  const double seconds = misbehaving.until_ranks_end(within_s + 10);
  std::cout << "    ranks ended " << seconds << " s after the deed\n";
  EXPECT_GE(seconds, 0) << "ranks run on: " << misbehaving.words();
  EXPECT_LT(seconds, within_s);
  misbehaving.exit_code();
  for (const auto& part : parts)
    EXPECT_TRUE(has(misbehaving.words(), part)) << "not said: " << part << "\nin " << misbehaving.words();
}

}  // namespace lockstep::test
