"""Input pipelines of PyTorch, timed: python io_loaders.py torch|webdataset PATH --workload images|records …

Prints one line of JSON: samples, seconds, and how much memory (PSS of this process and
its workers) was added since the start. Shuffled, batches of uint8 tensors, as ours.
"""

import argparse
import glob
import io
import json
import os
import time

import numpy as np
import torch
from PIL import Image


def pss_of(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def family():
    """This process and all below it."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                parents[int(pid)] = int(stat.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def pss():
    return sum(pss_of(pid) for pid in family())


class ImageFolder(torch.utils.data.Dataset):
    """As torchvision's, without its dependencies."""

    def __init__(self, root):
        self.files = [
            (path, int(label)) for label in sorted(os.listdir(root)) for path in sorted(glob.glob(f"{root}/{label}/*.jpg"))
        ]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        with Image.open(path) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))), label


class Records(torch.utils.data.Dataset):
    def __init__(self, path):
        self.array = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.array)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(self.array[index]))


def torch_loader(options):
    dataset = ImageFolder(options.path) if options.workload == "images" else Records(options.path)
    common = dict(num_workers=options.workers, persistent_workers=options.workers > 0)
    if options.whole_batches:  # the data set gets a list of indices, and one copy makes the batch
        sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(dataset), options.batch, drop_last=False)
        return torch.utils.data.DataLoader(dataset, sampler=sampler, batch_size=None, **common)
    return torch.utils.data.DataLoader(dataset, batch_size=options.batch, shuffle=True, **common)


def webdataset_loader(options):
    import webdataset as wds

    def decode(sample):
        image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
        return torch.from_numpy(np.array(image)), int(sample["cls"])

    shards = sorted(glob.glob(options.path))
    dataset = (
        wds.WebDataset(shards, shardshuffle=len(shards), workersplitter=wds.split_by_worker)
        .shuffle(1000)
        .map(decode)
        .batched(options.batch)
    )
    return wds.WebLoader(dataset, batch_size=None, num_workers=options.workers, persistent_workers=options.workers > 0)


def batches_of(loader):
    while True:
        yield from loader


def count(batch):
    return len(batch[0]) if isinstance(batch, (list, tuple)) else len(batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["torch", "webdataset"])
    parser.add_argument("path")
    parser.add_argument("--workload", choices=["images", "records"], required=True)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--whole-batches", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)

    before = pss()
    loader = torch_loader(options) if options.peer == "torch" else webdataset_loader(options)
    batches = batches_of(loader)
    for _ in range(options.warm_up):
        next(batches)
    samples = 0
    start = time.perf_counter()
    for _ in range(options.batches):
        samples += count(next(batches))
    seconds = time.perf_counter() - start
    print(json.dumps({"samples": samples, "seconds": seconds, "pss_bytes": pss() - before}), flush=True)


if __name__ == "__main__":
    main()
