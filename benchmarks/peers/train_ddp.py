"""Training steps of PyTorch, timed: DistributedDataParallel over gloo, one process a rank.

The method is that of `lockstep bench train`: from the end of one step to the end of the next, the slowest
rank counts. Models and batches are those of apps/bench/train_case.cpp.
"""

import argparse
import json

import torch
from torch import nn
from torch.nn import functional

import nets
import ranks


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


def work(rank, options):
    torch.manual_seed(rank)
    make_model, make_batch = CASES[options.model]
    model = make_model()
    if options.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=options.tuned)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=options.tuned)
    x, y = make_batch()

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(x).reshape(y.numel(), -1), y).backward()
        optimizer.step()

    seconds = ranks.step_seconds(step, options.warm_up, options.steps)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "samples": x.shape[0] * options.ranks}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=CASES, required=True)
    ranks.add_options(parser)
    parser.add_argument("--tuned", action="store_true", help="gradients as views of buckets, fused SGD")
    options = parser.parse_args()
    ranks.run_ranks(work, options.ranks, options, threads=options.threads)


if __name__ == "__main__":
    main()
