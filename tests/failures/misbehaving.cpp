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

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// By how their names begin: what others of the machine name after us comes and goes.
std::set<std::string> our_files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("lockstep")) names.insert(entry.path());
    }
  }
  return names;
}

}  // namespace

Misbehaving::Misbehaving(const std::vector<std::string>& command) : files_before_(our_files()), run_(command) {}

std::vector<pid_t> Misbehaving::ranks() const {
  std::vector<pid_t> found;
  for (const pid_t process : run_.processes()) {
    if (read("/proc/" + std::to_string(process) + "/comm") == "misbehave\n") found.push_back(process);
  }
  return found;
}

pid_t Misbehaving::rank(int rank) const {
  for (const pid_t process : ranks()) {
    const std::string environment = '\0' + read("/proc/" + std::to_string(process) + "/environ");
    for (const char* name : {"LOCKSTEP_RANK=", "OMPI_COMM_WORLD_RANK="}) {
      if (has(environment, '\0' + (name + std::to_string(rank)) + '\0')) return process;
    }
  }
  return -1;
}

void Misbehaving::signal(int rank, int number) const {
  const pid_t process = this->rank(rank);
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
