// Finds the ranks of a run that mpirun or srun started. A plug-in: it is loaded only
// where it is needed, so that a machine without MPI runs everything else.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "lockstep/comm/all_ranks.h"
#include "lockstep/comm/control.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/hier_group.h"
#include "lockstep/comm/host_group.h"
#include "lockstep/comm/mpi/mpi_wire.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/comm/world.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/log.h"
#include "lockstep/core/version.h"

namespace lockstep::comm {
namespace {

struct MpiCommTraits {
  using Raw = MPI_Comm;
  static Raw empty() noexcept { return MPI_COMM_NULL; }
  static void release(Raw raw) noexcept {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // Freeing is collective; while an exception unwinds, peers may never join.
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&raw);
  }
};
using MpiComm = Handle<MpiCommTraits>;

/// MPI starts as a world of its own where it cannot speak to who started the program: each
/// rank would be rank 0 of 1.
void check_not_alone() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) return;
  // Under Open MPI's mpirun Slurm's variables are about the daemons of mpirun.
  const char* const claim = environment::get("OMPI_COMM_WORLD_SIZE") ? "OMPI_COMM_WORLD_SIZE"
                            : environment::get("PMI_SIZE")           ? "PMI_SIZE"
                                                                     : "SLURM_STEP_NUM_TASKS";
  const auto claimed = environment::get(claim);
  if (!claimed || std::atoi(claimed->c_str()) <= 1) return;
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  const std::string words(library, static_cast<std::size_t>(length));
  fail(Fault::Usage, fmt::format("{}={} but MPI knows of one rank only: Lockstep was built with {}; start the program "
                                 "with that MPI's own mpirun, with 'srun --mpi=pmix', or with 'lockstep launch'",
                                 claim, *claimed, words.substr(0, words.find_first_of(",\n"))));
}

/// True if this call initialised MPI, false if the caller of Lockstep had.
bool initialise() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  int provided = MPI_THREAD_SINGLE;
  if (initialised != 0) {
    MPI_Query_thread(&provided);
  } else {
#ifdef OPEN_MPI
    // Its own words for this fill a page, and it ends the process.
    const bool started_by_srun = environment::get("SLURM_STEP_ID") && !environment::get("OMPI_COMM_WORLD_SIZE");
    if (started_by_srun && !environment::get("PMIX_RANK")) {
      fail(Fault::Usage,
           "srun started this program with a process manager that Open MPI cannot speak to; use 'srun --mpi=pmix'");
    }
#endif
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "starting");
  }
  check_not_alone();
  // The calls of a program that has MPI for itself run beside those of our communication thread.
  // If all calls are ours, one at a time will do: MpiWire sees to that.
  if (initialised != 0 && provided < MPI_THREAD_MULTIPLE) {
    fail(Fault::Usage,
         "MPI was initialised without MPI_THREAD_MULTIPLE, but Lockstep's communication thread calls it beside the "
         "program; use MPI_Init_thread(…, MPI_THREAD_MULTIPLE, …), or let Lockstep initialise MPI");
  }
  if (provided < MPI_THREAD_SERIALIZED)
    fail(Fault::Usage, "this MPI cannot be called by a communication thread; build it with support for threads");
  return initialised == 0;
}

/// The same text of every rank, by rank.
std::vector<std::string> gather_texts(const std::string& text) {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int mine = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size)), offsets(static_cast<std::size_t>(size), 0);
  check_mpi(MPI_Allgather(&mine, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD), "meeting the other ranks");
  std::partial_sum(lengths.begin(), lengths.end() - 1, offsets.begin() + 1);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), 0);
  check_mpi(
      MPI_Allgatherv(text.data(), mine, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, MPI_COMM_WORLD),
      "meeting the other ranks");
  std::vector<std::string> result;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    result.push_back(all.substr(static_cast<std::size_t>(offsets[rank]), static_cast<std::size_t>(lengths[rank])));
  }
  return result;
}

// A copy: kVersion itself is one symbol for all libraries of the process, the first one's.
constexpr auto kOwnVersion = std::to_array(kVersion);

void check_versions() {
  const auto versions = gather_texts(kOwnVersion.data());
  for (std::size_t rank = 1; rank < versions.size(); ++rank) {
    if (versions[rank] != versions[0]) {
      fail(Fault::Usage, fmt::format("rank 0 is Lockstep {} but rank {} is {}; install one version on all hosts",
                                     versions[0], rank, versions[rank]));
    }
  }
}

/// The table of this host, read by its first rank. Who moves a message, and so its lane, must be
/// the same on all hosts, whichever of them was calibrated: that is rank 0's. All ranks call it.
Tuning agreed_tuning(bool reads, int local_ranks) {
  Tuning tuning;
  try {
    if (reads) tuning = cached_tuning(local_ranks).value_or(tuning);
  } catch (const Error& error) {
    log().warn("{}", error.what());
  }
  std::uint64_t inline_bytes = tuning.inline_bytes;
  check_mpi(MPI_Bcast(&inline_bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "agreeing on the tuning table");
  tuning.inline_bytes = inline_bytes;
  return tuning;
}

/// The file that the first rank of the host has open as `descriptor`, opened by the others
/// through /proc. It keeps its own until they have.
FileDescriptor open_leaders(MPI_Comm host, int descriptor) {
  int rank = 0;
  MPI_Comm_rank(host, &rank);
  int place[2] = {getpid(), descriptor};
  check_mpi(MPI_Bcast(place, 2, MPI_INT, 0, host), "sharing memory on the host");
  if (rank == 0) return {};
  FileDescriptor file(open(fmt::format("/proc/{}/fd/{}", place[0], place[1]).c_str(), O_RDWR | O_CLOEXEC));
  if (!file)
    fail_errno(
        fmt::format(
            "cannot open the shared memory of process {}; do the ranks of this host run in different containers?",
            place[0]),
        errno);
  return file;
}

/// The segment of this host: its first rank makes it.
std::shared_ptr<Segment> share_segment(MPI_Comm host) {
  int rank = 0, size = 1;
  MPI_Comm_rank(host, &rank);
  MPI_Comm_size(host, &size);
  FileDescriptor made;
  std::shared_ptr<Segment> segment;
  if (rank == 0) {
    made = Segment::create(size);
    segment = Segment::attach(made.get());
    segment->header().ranks_say_cause = 1;
  }
  const std::string table = agreed_tuning(rank == 0, size).json();
  if (rank == 0 && table.size() < sizeof segment->header().calibration)
    std::strncpy(segment->header().calibration, table.c_str(), sizeof segment->header().calibration - 1);
  const FileDescriptor opened = open_leaders(host, made.get());
  if (opened) segment = Segment::attach(opened.get());
  // mpirun may have bound each rank to a core of its own: count those of all.
  std::array<unsigned char, 4096> mine{}, all{};
  for (const int cpu : usable_cpus()) mine[static_cast<std::size_t>(cpu) % mine.size()] = 1;
  check_mpi(MPI_Allreduce(mine.data(), all.data(), static_cast<int>(all.size()), MPI_UNSIGNED_CHAR, MPI_MAX, host),
            "counting cores");
  if (rank == 0) segment->header().usable_cpus = std::accumulate(all.begin(), all.end(), 0);
  check_mpi(MPI_Barrier(host), "sharing memory on the host");
  return segment;
}

World mpi_world(const WorldOptions& options, bool one_rank_per_host) {
  const bool ours = initialise();
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  check_versions();

  MPI_Comm raw = MPI_COMM_NULL;
  const int pretended = environment::get_int(environment::kRanksPerHost, 0, 1, 1 << 20);
  if (one_rank_per_host || pretended > 0)
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, one_rank_per_host ? world.rank : world.rank / pretended, 0, &raw),
              "splitting by rank");
  else
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &raw), "splitting by host");
  const MpiComm host(raw);
  MPI_Comm_rank(host.get(), &world.local_rank);
  MPI_Comm_size(host.get(), &world.local_size);
  int host_id = world.rank;
  check_mpi(MPI_Bcast(&host_id, 1, MPI_INT, 0, host.get()), "numbering the hosts");
  std::vector<int> host_ids(static_cast<std::size_t>(world.size));
  check_mpi(MPI_Allgather(&host_id, 1, MPI_INT, host_ids.data(), 1, MPI_INT, MPI_COMM_WORLD), "numbering the hosts");
  const HostMap map = HostMap::from(host_ids);
  const int my_host = map.host_of[static_cast<std::size_t>(world.rank)];

  auto segment = share_segment(host.get());
  world.endpoint = std::make_shared<Endpoint>(segment, world.local_rank,
                                              EndpointOptions{world.rank, map.ranks[static_cast<std::size_t>(my_host)],
                                                              options.timeout_s, options.comm_cpus, false});
  auto local = std::make_unique<HostGroup>(world.endpoint);
  world.kill_all = [](int code) { MPI_Abort(MPI_COMM_WORLD, code); };

  std::shared_ptr<ControlChannel> control;
  if (map.hosts() > 1) {
    std::shared_ptr<ControlBoard> board;
    if (world.local_rank == 0) board = ControlBoard::create(world.size);
    FileDescriptor opened = open_leaders(host.get(), board ? board->descriptor() : -1);
    if (opened) board = ControlBoard::attach(std::move(opened), world.size);
    ControlChannel::Options settings{segment, board, {}, my_host};
    settings.lost_after_s = environment::get_seconds(environment::kLostAfter, settings.lost_after_s);
    if (settings.lost_after_s < 2 * settings.beat_s)
      fail(Fault::Usage,
           fmt::format("{}={} is too short: hosts report every {} s; use at least {}", environment::kLostAfter,
                       settings.lost_after_s, settings.beat_s, 2 * settings.beat_s));
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    const auto names = gather_texts(name);
    for (const auto& ranks : map.ranks)
      settings.hosts.push_back({names[static_cast<std::size_t>(ranks.front())], ranks});
    std::optional<ControlChannel::Listener> listener;
    if (world.rank == 0) listener.emplace();
    const std::string invitation = gather_texts(listener ? listener->invitation() : "")[0];
    if (listener)
      control = std::make_shared<ControlChannel>(std::move(settings), std::move(*listener));
    else if (world.local_rank == 0)
      control = std::make_shared<ControlChannel>(std::move(settings), invitation);

    // A peer that fails often shows as a broken message first: its own cause is better.
    MpiWire::Options wire;
    wire.on_error = [endpoint = world.endpoint](const std::string& words) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
      while (!endpoint->segment().aborted() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      endpoint->fail_for_all("MPI: " + words);
    };
    wire.aborted = [segment] { return segment->aborted(); };
    wire.memory = segment;
    world.backend = std::make_unique<HierGroup>(
        one_rank_per_host ? "mpi" : "hier", std::make_shared<MpiWire>(MPI_COMM_WORLD, std::move(wire)), 1,
        std::move(local), world.rank, all_ranks(world.size), std::move(host_ids), board);
  } else {
    world.backend = std::move(local);  // one host: shared memory is all it takes
  }
  world.leave = [ours, control]() mutable {
    control.reset();
    if (ours) MPI_Finalize();
  };
  MPI_Barrier(MPI_COMM_WORLD);
  return world;
}

const WorldRegistry::Add hier{"hier", "ranks of mpirun or srun: shared memory inside a host, MPI between hosts",
                              [](const WorldOptions& options) { return mpi_world(options, false); }};
const WorldRegistry::Add mpi{"mpi", "ranks of mpirun or srun, MPI between all of them",
                             [](const WorldOptions& options) { return mpi_world(options, true); }};

}  // namespace
}  // namespace lockstep::comm
