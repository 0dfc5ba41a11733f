#!/usr/bin/env python3
"""Reads what a run left with the packages that users have.

Usage: read_run.py RUN_FOLDER WEIGHTS.safetensors
Fails unless TensorBoard shows the curve of all steps once each, ending with the loss of run.json,
and safetensors opens the weights under the names of the layers.
"""
import json
import sys

try:
    from safetensors.numpy import load_file
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

folder, weights = sys.argv[1:]
with open(f"{folder}/run.json", encoding="utf-8") as file:
    result = json.load(file)["result"]

events = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0})
events.Reload()
losses = events.Scalars("train/loss")
steps = [point.step for point in losses]
assert steps == list(range(1, result["steps"] + 1)), f"steps {steps}"
assert abs(losses[-1].value - result["loss"]) < 1e-6 * abs(result["loss"]), (losses[-1], result["loss"])
assert losses[0].value > losses[-1].value, "the loss has not fallen"
test = events.Scalars("test/accuracy")
assert [point.step for point in test] == [result["steps"]], test
histograms = events.Tags()["histograms"]
assert "weights/layers.0.weight" in histograms, histograms
last = events.Histograms("weights/layers.0.weight")[-1].histogram_value

tensors = load_file(weights)
assert set(tensors) == {f"layers.{i}.{kind}" for i in range(3) for kind in ("weight", "bias")}, set(tensors)
first = tensors["layers.0.weight"]
assert first.shape == (32, 16), first.shape
assert last.num == first.size and abs(last.sum - first.sum(dtype="float64")) < 1e-6 * first.size, (last.num, last.sum)
print(f"{len(steps)} steps, {len(tensors)} tensors")
