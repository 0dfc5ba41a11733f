// lockstep/comm/world.h
//
// How a process finds the other ranks. A World is what is found: this rank's place
// and the back-end of the group of all ranks. Each way of finding it is registered
// by name; the MPI plug-in adds its own when it is loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/core/registry.h"

namespace lockstep::comm {

struct WorldOptions {
  double timeout_s = 300;
  std::vector<int> comm_cpus;
};

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::shared_ptr<Endpoint> endpoint;
  std::unique_ptr<Backend> backend;
  /// Ends every process of the run that is still there; the last resort after an abort.
  std::function<void(int exit_code)> kill_all;
  /// Called once the world is no longer needed, after a good end of all ranks only.
  std::function<void()> leave;
};

using WorldRegistry = Registry<World(const WorldOptions&)>;

/// The name of the way that the environment asks for: "shm" under `lockstep launch`,
/// "hier" under mpirun or srun, else "self"; LOCKSTEP_BACKEND overrides. Fails with
/// the remedy under a process manager that cannot be spoken to.
std::string detect_world();

/// Registers the worlds of plug-ins too, where they can be loaded.
void load_plugins() noexcept;

/// A world from `name`, loading the MPI plug-in where it is needed.
World make_world(const std::string& name, const WorldOptions& options);

}  // namespace lockstep::comm
