#!/usr/bin/env python3
"""Trains what torch_test has recorded, in plain PyTorch under DistributedDataParallel.

Usage: reference.py FOLDER
For every FOLDER/NAME.json there is a NAME.safetensors with the first weights, the batches of every
step and rank, and what they came to. Fails unless in float64 the losses of all steps and the last
weights agree to 1e-9, and in float32 the first loss and gradient to 1e-6, relative and by norm.
"""
import json
import math
import os
import sys
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "peers"))
import nets

RANKS = 4
MOST = {"float64": 1e-9, "float32": 1e-6}


def rows(tensors, name):
    return tensors[name].shape[0]


MODELS = {
    "mlp": lambda first, model: nets.Mlp(first["layers.0.weight"].shape[1], *model["hidden"],
                                         rows(first, f"layers.{len(model['hidden'])}.weight")),
    "cnn": lambda first, model: nets.Cnn(first["fc1.weight"].shape[1] // 64, rows(first, "fc2.weight")),
    "resnet18": lambda first, model: nets.ResNet18(model["width"], rows(first, "fc.weight")),
    "lstm": lambda first, model: nets.Lstm(rows(first, "head.weight"), model["width"], model["hidden"], model["layers"]),
    "gpt": lambda first, model: nets.Gpt(rows(first, "wte.weight"), rows(first, "wpe.weight"), model["width"],
                                         model["heads"], model["layers"]),
}


def optimizer_of(settings, parameters):
    if settings["name"] == "adamw":
        return torch.optim.AdamW(parameters, lr=settings["lr"], weight_decay=settings["weight_decay"])
    return torch.optim.SGD(parameters, lr=settings["lr"], momentum=settings["momentum"],
                           nesterov=settings.get("nesterov", False), weight_decay=settings["weight_decay"])


def below(tensors, prefix):
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def difference(mine, theirs):
    """Of all tensors as one, relative to its norm."""
    assert set(mine) == set(theirs), set(mine) ^ set(theirs)
    squares = float(sum(((mine[name].double() - theirs[name].double()) ** 2).sum() for name in mine))
    size = float(sum((tensor.double() ** 2).sum() for tensor in theirs.values()))
    if size == 0:
        return 0.0 if squares == 0 else math.inf
    return math.sqrt(squares / size)


def largest(values):
    """Unlike max() it does not lose what is no number."""
    values = list(values)
    return max(values) if all(math.isfinite(value) for value in values) else math.inf


def train(path, rank):
    """The largest differences, by what differs."""
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    tensors = load_file(path.with_suffix(".safetensors"))
    recipe, text = run["recipe"], "task" in run["recipe"]
    model = MODELS[run["model"]](below(tensors, "first/"), recipe["model"])
    # Names and shapes are PyTorch's own, or this fails.
    model.load_state_dict(below(tensors, "first/"), strict=True)
    model.to(getattr(torch, run["precision"]))
    parallel = DistributedDataParallel(model)
    optimizer = optimizer_of(recipe["optimizer"], parallel.parameters())
    worst, losses = {}, []
    for step, wanted in enumerate(run["losses"]):
        fields = [tensors[f"batch/{step}/{rank}/{field}"] for field in range(1 if text else 2)]
        inputs, targets = (fields[0][:, :-1].long(), fields[0][:, 1:].long()) if text else (fields[0], fields[1].long())
        optimizer.zero_grad()
        outputs = parallel(inputs)
        loss = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))
        loss.backward()
        if run["precision"] == "float32":
            # Ours are divided by samples; what is counted may be tokens.
            per_sample = targets.numel() / targets.shape[0] if text else 1
            wanted_gradients = {name: gradient / per_sample for name, gradient in below(tensors, "gradient/").items()}
            worst["gradient"] = difference({name: p.grad for name, p in model.named_parameters()}, wanted_gradients)
        if "clip_norm" in recipe:
            torch.nn.utils.clip_grad_norm_(parallel.parameters(), recipe["clip_norm"])
        optimizer.step()
        mean = loss.detach().double().clone()
        dist.all_reduce(mean)
        mean /= RANKS
        losses.append(float(mean))
    worst["loss"] = largest(abs(mine - wanted) / abs(wanted) for mine, wanted in zip(losses, run["losses"], strict=True))
    if run["precision"] == "float64":
        first, last = below(tensors, "first/"), below(tensors, "last/")
        assert len(losses) == 50 and losses[-1] < 0.9 * losses[0], f"{path.stem} has learned nothing: {losses}"
        assert difference(first, last) > 1e-3, f"the weights of {path.stem} have not moved"
        worst["weights"] = largest(difference({name: value}, {name: last[name]}) for name, value in model.state_dict().items())
    return worst


def work(rank, folder):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    failed = False
    for path in sorted(Path(folder).glob("*.json")):
        worst = train(path, rank)
        if rank > 0:
            continue
        print(f"{path.stem}: " + ", ".join(f"{what} differ by {value:.1e}" for what, value in worst.items()), flush=True)
        failed |= not all(value <= MOST[path.stem.split("-")[1]] for value in worst.values())
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(sys.argv[1],), nprocs=RANKS)
