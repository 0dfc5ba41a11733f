"""torch.distributed's gloo all-reduce, timed: python allreduce_gloo.py RANKS BYTES:REPS…

Starts its own ranks. The method is that of mpi_timing.h: every rank rewrites its
buffer before each call, one call is timed at a time, the slowest rank counts.
"""

import json
import os
import signal
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def check_result(values, rank, ranks):
    # Small whole numbers: their sum is exact in float32, in any order.
    pattern = torch.arange(values.numel()) % 7
    values.copy_(pattern * (rank + 1))
    dist.all_reduce(values)
    if not torch.equal(values, (pattern * (ranks * (ranks + 1) // 2)).float()):
        raise SystemExit(f"wrong sum: rank {rank}, {values.numel()} values")


def time_once(values, rank):
    values.fill_(0.25 * rank)
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(values)
    return time.perf_counter() - start


def time_item(bytes_, reps, rank, ranks):
    values = torch.empty(bytes_ // 4, dtype=torch.float32)
    check_result(values, rank, ranks)
    for _ in range(2 + reps // 10):
        time_once(values, rank)
    seconds = torch.tensor([time_once(values, rank) for _ in range(reps)], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"bytes": bytes_, "seconds": seconds.tolist()}), flush=True)


def work(rank, ranks, store, items):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for bytes_, reps in items:
        time_item(bytes_, reps, rank, ranks)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    items = [tuple(int(part) for part in item.split(":")) for item in sys.argv[2:]]
    # Without a name gloo resolves the host's own, which fails where DNS does not know it.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # A run that is stopped must still remove its store: leave through the with block.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="allreduce_gloo_") as folder:
        # Forked, not spawned: importing torch once instead of once a rank saves seconds.
        processes.start_processes(
            work, args=(ranks, os.path.join(folder, "store"), items), nprocs=ranks, daemon=True, start_method="fork"
        )


if __name__ == "__main__":
    main()
