"""Training steps of PyTorch with a model or its optimiser cut over ranks, timed: a GPT over gloo.

The method is that of `lockstep bench parallel`: from the end of one step to the end of the next, the slowest
rank counts. First weights and tokens come from a file of ours, so that losses can be compared.
"""

import argparse
import json
import struct

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import nets
import ranks

ADAMW = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "fused": True}
TYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """The package of that name is not needed for so simple a format, and not everybody has it."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    head = json.loads(content[8:begin])
    values = memoryview(content)[begin:]
    head.pop("__metadata__", None)

    def tensor(entry):
        part = values[slice(*entry["data_offsets"])]
        return torch.frombuffer(part, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])

    return {name: tensor(entry) for name, entry in head.items()}


def loss_of(outputs, targets):
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def optimizer_of(model):
    """Fused, which takes either plain tensors or DTensors at a time: a group of each."""
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(type(parameter.data), []).append(parameter)
    return torch.optim.AdamW([{"params": group} for group in groups.values()], **ADAMW)


class DataParallel:
    """Every rank has samples of its own."""

    def __init__(self, options, model, x, y):
        self.x, self.y = (values.chunk(options.ranks)[dist.get_rank()] for values in (x, y))
        self.model, self.optimizer = self.cut(options, model)

    def step(self):
        self.optimizer.zero_grad()
        loss = loss_of(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach() / dist.get_world_size()


class Zero1(DataParallel):
    """DistributedDataParallel. The optimiser cannot step while gradients still come: over gloo that is refused."""

    def cut(self, options, model):
        # All gradients of the model would fit into one bucket of usual size, and none travel while backward goes on.
        model = DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=4)
        return model, ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **ADAMW
        )


class Fsdp(DataParallel):
    """FSDP2, a block at a time."""

    def cut(self, options, model):
        mesh = init_device_mesh("cpu", (options.ranks,))
        for block in model.h:
            fully_shard(block, mesh=mesh, reshard_after_forward=options.case == "zero3")
        # What the root has is used last in forward and first in backward: gathered anew it would be slower.
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        for block, after in zip(model.h, model.h[1:]):
            block.set_modules_to_forward_prefetch([after])
        return model, optimizer_of(model)


class Tensor:
    """Every rank has all samples and a part of each matrix."""

    def __init__(self, options, model, x, y):
        self.x, self.y = x, y
        # Plans cut modules: the head becomes one, and has the embedding's part of the weights once both are cut.
        model.lm_head = nn.Linear(*reversed(model.wte.weight.shape), bias=False)
        for block in model.h:
            self.sort_heads(block.attn, options.ranks)
        plan = {
            "wte": RowwiseParallel(input_layouts=Replicate()),
            "h.*.attn.c_attn": ColwiseParallel(),
            "h.*.attn.c_proj": RowwiseParallel(),
            "h.*.mlp.c_fc": ColwiseParallel(),
            "h.*.mlp.c_proj": RowwiseParallel(),
            "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        }
        self.model = parallelize_module(model, init_device_mesh("cpu", (options.ranks,)), plan)
        self.model.lm_head.weight = self.model.wte.weight
        self.optimizer = optimizer_of(self.model)

    @staticmethod
    def sort_heads(attention, ranks):
        """Queries, keys and values of all heads lie one behind the other; a rank is to have those of its heads."""
        attention.heads //= ranks
        for values in attention.c_attn.parameters():
            values.data = values.data.unflatten(0, (3, ranks, -1)).transpose(0, 1).flatten(0, 2).contiguous()

    def step(self):
        self.optimizer.zero_grad()
        with loss_parallel():
            loss = loss_of(self.model(self.x), self.y)
            loss.backward()
        self.optimizer.step()
        return loss.detach().to_local() / dist.get_world_size()


class Stage(nn.Module):
    """Links [first, end) of a model: link 0 are the embeddings, the last one is the head."""

    def __init__(self, model, first, end):
        super().__init__()
        head = len(model.h) + 1
        self.embeddings = nn.ModuleList([model.wte, model.wpe]) if first == 0 else None
        self.h = model.h[max(first, 1) - 1 : min(end, head) - 1]
        self.head = nn.Sequential(model.ln_f, model.lm_head) if end > head else None

    def forward(self, values):
        if self.embeddings is not None:
            values = self.embeddings[0](values) + self.embeddings[1](torch.arange(values.shape[1]))
        for block in self.h:
            values = block(values)
        return values if self.head is None else self.head(values)


class Pipe:
    """Every rank has some of the blocks, through which micro-batches pass."""

    SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}

    def __init__(self, options, model, x, y):
        rank = dist.get_rank()
        self.x, self.y = x, y
        self.first, self.last = rank == 0, rank == options.ranks - 1
        self.model = Stage(model, *options.cuts[rank : rank + 2])
        stage = PipelineStage(self.model, rank, options.ranks, torch.device("cpu"))
        self.schedule = self.SCHEDULES[options.schedule](stage, options.micro_batches, loss_fn=loss_of)
        self.optimizer = optimizer_of(self.model)

    def step(self):
        self.optimizer.zero_grad()
        losses = []
        arguments = (self.x,) if self.first else ()
        if self.last:
            self.schedule.step(*arguments, target=self.y, losses=losses, return_outputs=False)
        else:
            self.schedule.step(*arguments, return_outputs=False)
        self.optimizer.step()
        return torch.stack(losses).detach().mean() if losses else torch.zeros(())


CASES = {"zero1": Zero1, "zero2": Fsdp, "zero3": Fsdp, "tensor": Tensor, "pipe": Pipe}


def work(rank, options):
    at_start = ranks.pss_bytes()
    tensors = read_safetensors(options.start)
    tokens = tensors.pop("tokens").clone()  # or it would keep the memory of all weights
    positions, width = tensors["wpe.weight"].shape
    layers = sum(name.endswith("c_attn.weight") for name in tensors)
    tied = "lm_head.weight" not in tensors
    model = nets.Gpt(tensors["wte.weight"].shape[0], positions, width, options.heads, layers, tied)
    model.load_state_dict(tensors)
    run = CASES[options.case](options, model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    del model, tensors
    losses = []
    seconds = ranks.step_seconds(lambda: losses.append(run.step()), options.warm_up, options.steps)
    peak = ranks.peak_pss_bytes(lambda: [run.step() for _ in range(2)])
    losses = torch.stack(losses)
    dist.all_reduce(losses)
    (pss,) = ranks.largest([peak - at_start], torch.int64)
    if rank == 0:
        found = {"seconds": seconds, "samples": len(tokens), "losses": losses.tolist(), "pss_bytes": pss}
        print(json.dumps(found), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--schedule", choices=Pipe.SCHEDULES, default="1f1b")
    parser.add_argument("--start", required=True, help="first weights and tokens, as safetensors")
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--cuts", type=lambda text: [int(link) for link in text.split(",")], default=[])
    ranks.add_options(parser)
    options = parser.parse_args()
    ranks.run_ranks(work, options.ranks, options, threads=options.threads)


if __name__ == "__main__":
    main()
