#include "lockstep/comm/world.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "lockstep/comm/all_ranks.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/host_group.h"

namespace lockstep::comm {
namespace {

World self_world(const WorldOptions& options) {
  World world;
  auto segment = Segment::for_threads(1);
  segment->header().ranks_say_cause = 1;
  world.endpoint = std::make_shared<Endpoint>(std::move(segment), 0,
                                              EndpointOptions{0, {0}, options.timeout_s, options.comm_cpus, false});
  world.backend = std::make_unique<HostGroup>(world.endpoint);
  return world;
}

World launched_world(const WorldOptions& options) {
  if (!environment::get(environment::kSegment)) {
    fail(Fault::Usage, "the shm back-end needs a launcher; start the program with 'lockstep launch -n N -- PROGRAM'");
  }
  World world;
  world.size = environment::get_int(environment::kSize, 1, 1, 1 << 20);
  world.rank = environment::get_int(environment::kRank, 0, 0, world.size - 1);
  world.local_rank = world.rank;
  world.local_size = world.size;
  const int descriptor = environment::get_int(environment::kSegment, -1, 0, 1 << 20);
  auto segment = Segment::attach(descriptor);
  // Programs that this one starts must not hold the memory of the run.
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  if (segment->ranks() != world.size) {
    fail(Fault::Usage,
         fmt::format("{}={} but the launcher started {} ranks", environment::kSize, world.size, segment->ranks()));
  }
  world.endpoint = std::make_shared<Endpoint>(
      std::move(segment), world.rank,
      EndpointOptions{world.rank, all_ranks(world.size), options.timeout_s, options.comm_cpus, false});
  world.backend = std::make_unique<HostGroup>(world.endpoint);
  return world;
}

const WorldRegistry::Add self{"self", "one rank, no launcher", self_world};
const WorldRegistry::Add shm{"shm", "ranks of 'lockstep launch' on this host", launched_world};

/// The plug-in lies beside the library that this code is in.
void load_mpi_plugin() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&load_mpi_plugin), &info) == 0) fail(Fault::Internal, "cannot locate liblockstep");
  const auto path = std::filesystem::path(info.dli_fname).parent_path() / "liblockstep_mpi.so";
  if (!std::filesystem::exists(path)) {
    fail(Fault::Usage,
         fmt::format("Lockstep was built without MPI ({} is not there); install an MPI (Debian: libopenmpi-dev "
                     "openmpi-bin) and build again, or use 'lockstep launch' on one host",
                     path.string()));
  }
  // Global: Open MPI opens plug-ins of its own that look for its symbols.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    fail(Fault::Usage, fmt::format("the MPI plug-in cannot be loaded: {}; is MPI installed on this host?", dlerror()));
  }
}

}  // namespace

std::string detect_world() {
  if (const auto name = environment::get(environment::kBackend)) return *name;
  if (environment::get(environment::kSegment)) return "shm";
  const bool pmix = environment::get("PMIX_RANK").has_value();
  if (environment::get("OMPI_COMM_WORLD_SIZE") || environment::get("PMI_RANK") || pmix) {
    return "hier";
  }
  const auto tasks = environment::get("SLURM_NTASKS");
  if (environment::get("SLURM_PROCID") && environment::get("SLURM_STEP_ID") && tasks && *tasks != "1") {
    fail(Fault::Usage,
         fmt::format("srun started {} tasks without a process manager that MPI can speak to; use 'srun --mpi=pmix'",
                     *tasks));
  }
  return "self";
}

void load_plugins() noexcept {
  try {
    if (!WorldRegistry::instance().contains("mpi")) load_mpi_plugin();
  } catch (const Error&) {
    // Whoever asks for one of its worlds by name is told why.
  }
}

World make_world(const std::string& name, const WorldOptions& options) {
  if (!WorldRegistry::instance().contains(name)) {
    // An unknown name shall see theirs proposed, too; one of theirs shall hear why it cannot be had.
    name == "mpi" || name == "hier" ? load_mpi_plugin() : load_plugins();
  }
  return WorldRegistry::instance().at("back-end", name)(options);
}

}  // namespace lockstep::comm
