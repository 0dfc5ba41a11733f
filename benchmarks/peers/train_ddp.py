"""Training steps of PyTorch, timed: DistributedDataParallel over gloo, one process a rank.

The method is that of `lockstep bench train`: from the end of one step to the end of the next, the slowest
rank counts. Models and batches are those of apps/bench/train_case.cpp.
"""

import argparse
import json
import os
import signal
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.nn import functional

import nets


def images(batch, *shape):
    return torch.randn(batch, *shape), torch.randint(10, (batch,))


def tokens(batch):
    text = torch.randint(256, (batch, 65))
    return text[:, :-1].contiguous(), text[:, 1:].reshape(-1)


CASES = {
    "mlp": (lambda: nets.Mlp(784, 4096, 4096, 10), lambda: images(128, 1, 28, 28)),
    "cnn": (lambda: nets.Cnn(12 * 12, 10), lambda: images(64, 1, 28, 28)),
    "resnet18": (lambda: nets.ResNet18(64, 10), lambda: images(8, 3, 32, 32)),
    "lstm": (lambda: nets.Lstm(vocabulary=256, width=64, hidden=256, layers=2), lambda: tokens(32)),
}


def work(rank, options, store):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(options.threads)
    cores = sorted(os.sched_getaffinity(0))
    if options.ranks * options.threads <= len(cores):
        os.sched_setaffinity(0, cores[rank * options.threads : (rank + 1) * options.threads])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    torch.manual_seed(rank)
    make_model, make_batch = CASES[options.model]
    model = make_model()
    if options.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=options.tuned)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=options.tuned)
    x, y = make_batch()
    ends = []
    for _ in range(options.warm_up + options.steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(x).reshape(y.numel(), -1), y).backward()
        optimizer.step()
        ends.append(time.perf_counter())
    seconds = torch.tensor([end - begin for begin, end in zip(ends, ends[1:])][-options.steps :], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"seconds": seconds.tolist(), "samples": x.shape[0] * options.ranks}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=CASES, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--tuned", action="store_true", help="gradients as views of buckets, fused SGD")
    options = parser.parse_args()
    # Without a name gloo resolves the host's own, which fails where DNS does not know it.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # A run that is stopped must still remove its store: leave through the with block.
    signal.signal(signal.SIGTERM, lambda *_: exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="train_ddp_") as folder:
        # Forked, not spawned: importing torch once instead of once a rank saves seconds.
        processes.start_processes(
            work, args=(options, os.path.join(folder, "store")), nprocs=options.ranks, daemon=True, start_method="fork"
        )


if __name__ == "__main__":
    main()
