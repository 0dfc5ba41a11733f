// lockstep/comm/runtime.h
//
// A Runtime is this process's part of a run: its rank, the world communicator, and
// the promise that no failure goes unseen. Make one at the start of main(); the
// same program runs alone, under `lockstep launch`, under mpirun and under
// `srun --mpi=pmix`. An exception that leaves main() ends every rank, and the user
// reads it first.
//
//   int main(int argc, char** argv) {
//     return lockstep::comm::run_program(argc, argv, [](lockstep::comm::Runtime& runtime) {
//       auto& world = runtime.world();
//       …
//     });
//   }
#pragma once

#include <functional>
#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {

class Watchdog;
struct World;

class Runtime {
 public:
  Runtime(int argc, char** argv);
  /// Ends this rank's part; with LOCKSTEP_TRACE set it first writes the merged trace.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  int local_rank() const noexcept;
  int local_size() const noexcept;
  /// How often the launcher has started this run again.
  int restart() const noexcept;
  Communicator& world() noexcept { return *communicator_; }

  /// Makes `error` the first cause unless there is one, releases every rank, and says
  /// it once. Returns the exit code for main().
  int abort(const Error& error) noexcept;

 private:
  bool leave_together();
  [[noreturn]] void end_now(const Error& error) noexcept;
  void check_trace();
  void log_statistics() const;
  void write_trace();

  std::unique_ptr<World> world_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Watchdog> watchdog_;
  int exceptions_at_start_;
};

/// main() of a program: makes the Runtime, runs `body`, and turns an exception into the
/// abort of every rank and the exit code.
int run_program(int argc, char** argv, const std::function<void(Runtime&)>& body) noexcept;

}  // namespace lockstep::comm
