"""torch.distributed's gloo all-reduce, timed: python allreduce_gloo.py RANKS BYTES:REPS…

Starts its own ranks. The method is that of mpi_timing.h: every rank rewrites its
buffer before each call, one call is timed at a time, the slowest rank counts.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

from ranks import run_ranks


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


def work(rank, ranks, items):
    for bytes_, reps in items:
        time_item(bytes_, reps, rank, ranks)


def main():
    ranks = int(sys.argv[1])
    items = [tuple(int(part) for part in item.split(":")) for item in sys.argv[2:]]
    # Not bound: each rank is several threads.
    run_ranks(work, ranks, ranks, items, bind=False)


if __name__ == "__main__":
    main()
