"""Ranks of PyTorch on this host over gloo, forked from one process, and how long their training steps take."""

import os
import signal
import tempfile
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def _rank(rank, ranks, threads, bind, store, work, arguments):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    cores = sorted(os.sched_getaffinity(0))
    if bind and ranks * threads <= len(cores):
        os.sched_setaffinity(0, cores[rank * threads : (rank + 1) * threads])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    work(rank, *arguments)
    dist.destroy_process_group()


def run_ranks(work, ranks, *arguments, threads=1, bind=True):
    """Calls work(rank, *arguments) in a process of each rank, on cores of its own if there are enough."""
    # Without a name gloo resolves the host's own, which fails where DNS does not know it.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # A run that is stopped must still remove its store: leave through the with block.
    signal.signal(signal.SIGTERM, lambda *_: exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="lockstep_peer_") as folder:
        # Forked, not spawned: importing torch once instead of once a rank saves seconds.
        processes.start_processes(
            _rank,
            args=(ranks, threads, bind, os.path.join(folder, "store"), work, arguments),
            nprocs=ranks,
            daemon=True,
            start_method="fork",
        )


def add_options(parser):
    """Of programs that time training steps, as the benchmarks call them."""
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)


def largest(values, kind=torch.float64):
    """Of all ranks, one by one."""
    values = torch.tensor(values, dtype=kind)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values.tolist()


def step_seconds(step, warm_up, steps):
    """From the end of one step to the end of the next, on the slowest rank; of the last `steps`."""
    ends = []
    for _ in range(warm_up + steps):
        step()
        ends.append(time.perf_counter())
    return largest([end - begin for begin, end in zip(ends, ends[1:])][-steps:])


def pss_bytes():
    """This process's share of what it has mapped."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def peak_pss_bytes(work):
    """The most that this process has while it does `work`, as seen every few milliseconds."""
    peak, done = pss_bytes(), threading.Event()

    def look():
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, pss_bytes())

    looker = threading.Thread(target=look)
    looker.start()
    work()
    done.set()
    looker.join()
    return peak
