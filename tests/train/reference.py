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
    import torch.nn as nn
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANKS = 4
MOST = {"float64": 1e-9, "float32": 1e-6}


class Mlp(nn.Module):
    def __init__(self, first, model):
        super().__init__()
        sizes = [first["layers.0.weight"].shape[1], *model["hidden"], first[f"layers.{len(model['hidden'])}.weight"].shape[0]]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))

    def forward(self, values):
        values = values.flatten(1)
        for layer in self.layers[:-1]:
            values = F.relu(layer(values))
        return self.layers[-1](values)


class Cnn(nn.Module):
    def __init__(self, first, model):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(first["fc1.weight"].shape[1], 128)
        self.fc2 = nn.Linear(128, first["fc2.weight"].shape[0])

    def forward(self, values):
        values = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(values)))), 2)
        return self.fc2(F.relu(self.fc1(values.flatten(1))))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        else:
            self.downsample = None

    def forward(self, values):
        past = values if self.downsample is None else self.downsample(values)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(values))))) + past)


class ResNet18(nn.Module):
    def __init__(self, first, model):
        super().__init__()
        inputs = model["width"]
        self.conv1 = nn.Conv2d(3, inputs, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inputs)
        for layer in range(4):
            outputs = model["width"] << layer
            blocks = [BasicBlock(inputs, outputs, 2 if layer > 0 else 1), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{layer + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, first["fc.weight"].shape[0])

    def forward(self, values):
        values = F.relu(self.bn1(self.conv1(values)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            values = layer(values)
        return self.fc(values.mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self, first, model):
        super().__init__()
        self.embedding = nn.Embedding(*first["embedding.weight"].shape)
        self.lstm = nn.LSTM(model["width"], model["hidden"], model["layers"], batch_first=True)
        self.head = nn.Linear(model["hidden"], first["head.weight"].shape[0])

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, values):
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(values).chunk(3, -1)]
        return self.c_proj(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, values):
        return self.c_proj(F.gelu(self.c_fc(values), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, values):
        values = values + self.attn(self.ln_1(values))
        return values + self.mlp(self.ln_2(values))


class Gpt(nn.Module):
    def __init__(self, first, model):
        super().__init__()
        self.wte = nn.Embedding(*first["wte.weight"].shape)
        self.wpe = nn.Embedding(*first["wpe.weight"].shape)
        self.h = nn.ModuleList(Block(model["width"], model["heads"]) for _ in range(model["layers"]))
        self.ln_f = nn.LayerNorm(model["width"])

    def forward(self, tokens):
        values = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            values = block(values)
        return F.linear(self.ln_f(values), self.wte.weight)


MODELS = {"mlp": Mlp, "cnn": Cnn, "resnet18": ResNet18, "lstm": Lstm, "gpt": Gpt}


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
            nn.utils.clip_grad_norm_(parallel.parameters(), recipe["clip_norm"])
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
