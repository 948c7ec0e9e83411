"""What the PyTorch peers share: arguments, batches, the timed steps and the report.

A model is handed over as `loss_of(tokens, targets)`, or as `accumulate(tokens, targets)` where the
backward pass is its own affair; the rest of a step is alike. One that takes other tensors brings
its own `batches`.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass, fields
from pathlib import Path

import numpy
import torch


@dataclass
class Shape:
    layers: int = 6
    hidden: int = 384
    heads: int = 6
    sequence: int = 256
    batch: int = 8
    vocabulary: int = 256
    dropout: float = 0.0


def memory_mib(field):
    """VmRSS (now) or VmHWM (peak) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


IMPORTED_MIB = memory_mib("VmRSS")


def arguments(shape=Shape):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="file of bytes, one token each")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--autocast", action="store_true", help="forward pass and loss in bf16")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--sharded", action="store_true", help="of replicas: FSDP2, not DDP")
    parser.add_argument("--processor", action="store_true", help="processor time, all threads'")
    for field in fields(shape):
        switch = "--" + field.name.replace("_", "-")
        parser.add_argument(switch, type=field.type, default=field.default)
    return parser.parse_args()


def shape_of(options, shape=Shape):
    return shape(**{field.name: getattr(options, field.name) for field in fields(shape)})


def batches(path, shape, device="cpu"):
    """Consecutive pieces of the file, from the start again at its end."""
    data = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8).astype(numpy.int64))
    data = data.pin_memory() if device == "cuda" else data
    per_step = shape.batch * shape.sequence
    count = (len(data) - 1) // per_step
    step = 0
    while True:
        start = step % count * per_step
        tokens = data[start : start + per_step].view(shape.batch, shape.sequence)
        targets = data[start + 1 : start + per_step + 1].view(shape.batch, shape.sequence)
        yield (part.to(device, non_blocking=True) for part in (tokens, targets))
        step += 1


def optimizer_of(parameters):
    return torch.optim.AdamW(
        parameters, lr=3e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=True
    )


def prepared(options, loss_of):
    """The loss under autocast, compiled, or as it is."""

    def in_bf16(*batch):
        with torch.autocast(options.device, torch.bfloat16):
            return loss_of(*batch)

    chosen = in_bf16 if options.autocast else loss_of
    return torch.compile(chosen) if options.compile else chosen


def train(options, shape, loss_of, parameters, clip, feed=batches):
    """Steps of a model whose loss is one tensor."""
    loss_of = prepared(options, loss_of)

    def accumulate(*batch):
        loss = loss_of(*batch)
        loss.backward()
        return loss

    return timed_steps(options, shape, accumulate, parameters, clip, feed)


class HostTimes:
    """Seconds of steps, each to its end."""

    def __init__(self, options):
        self.now = time.process_time if options.processor else time.perf_counter
        self.taken = []

    def begin(self):
        self.begun = self.now()

    def end(self, loss):
        loss.item()
        self.taken.append(self.now() - self.begun)

    def seconds(self):
        return self.taken

    def memory(self):
        return {}


class GpuTimes:
    """The same on the GPU's clock: the host goes ahead, as it does in training."""

    def __init__(self, _):
        self.events = []

    def begin(self):
        self.events.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        self.events[-1][0].record()

    def end(self, _):
        self.events[-1][1].record()

    def seconds(self):
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in self.events]

    def memory(self):
        return {"gpu_peak_bytes": torch.cuda.max_memory_allocated(),
                "gpu_reserved_bytes": torch.cuda.max_memory_reserved()}


def timed_steps(options, shape, accumulate, parameters, clip, feed=batches):
    """Runs warm-up and timed steps; returns the report of this process."""
    optimizer = optimizer_of(parameters)
    coming = feed(options.data, shape, options.device)
    times = (GpuTimes if options.device == "cuda" else HostTimes)(options)
    losses = []
    for _ in range(options.warmup + options.steps):
        times.begin()
        loss = accumulate(*next(coming))
        clip(parameters)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        times.end(loss)
    seconds = times.seconds()[options.warmup :]
    return {
        "tokens_per_second": shape.batch * shape.sequence / statistics.median(seconds),
        "seconds": seconds,
        "losses": [loss.item() for loss in losses],
        "imported_mib": IMPORTED_MIB,
        "peak_mib": memory_mib("VmHWM"),
        "torch": torch.__version__,
        **times.memory(),
    }


def report(result):
    print(json.dumps(result), flush=True)
