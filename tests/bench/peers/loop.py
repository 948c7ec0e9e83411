"""What the PyTorch peers share: arguments, batches, the timed steps and the report.

A model is handed over as `loss_of(tokens, targets)`, or as `accumulate(tokens, targets)` where the
backward pass is its own affair; the rest of a step is alike.
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


def batches(path, shape):
    """Consecutive pieces of the file, from the start again at its end."""
    data = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8).astype(numpy.int64))
    per_step = shape.batch * shape.sequence
    count = (len(data) - 1) // per_step
    step = 0
    while True:
        start = step % count * per_step
        tokens = data[start : start + per_step].view(shape.batch, shape.sequence)
        targets = data[start + 1 : start + per_step + 1].view(shape.batch, shape.sequence)
        yield tokens, targets
        step += 1


def optimizer_of(parameters):
    return torch.optim.AdamW(
        parameters, lr=3e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=True
    )


def prepared(options, loss_of):
    """The loss under autocast, compiled, or as it is."""

    def in_bf16(tokens, targets):
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(tokens, targets)

    chosen = in_bf16 if options.autocast else loss_of
    return torch.compile(chosen) if options.compile else chosen


def train(options, shape, loss_of, parameters, clip):
    """Steps of a model whose loss is one tensor."""
    loss_of = prepared(options, loss_of)

    def accumulate(tokens, targets):
        loss = loss_of(tokens, targets)
        loss.backward()
        return loss

    return timed_steps(options, shape, accumulate, parameters, clip)


def timed_steps(options, shape, accumulate, parameters, clip):
    """Runs warm-up and timed steps; returns the report of this process."""
    optimizer = optimizer_of(parameters)
    feed = batches(options.data, shape)
    seconds, losses = [], []
    clock = time.process_time if options.processor else time.perf_counter
    for step in range(options.warmup + options.steps):
        begin = clock()
        tokens, targets = next(feed)
        loss = accumulate(tokens, targets)
        clip(parameters)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step >= options.warmup:
            seconds.append(clock() - begin)
    return {
        "tokens_per_second": shape.batch * shape.sequence / statistics.median(seconds),
        "seconds": seconds,
        "losses": losses,
        "imported_mib": IMPORTED_MIB,
        "peak_mib": memory_mib("VmHWM"),
        "torch": torch.__version__,
    }


def report(result):
    print(json.dumps(result), flush=True)
