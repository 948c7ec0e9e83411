#!/usr/bin/env python3
"""How long training stands still for a checkpoint: Tessera, asynchronous and at once, against
torch.distributed.checkpoint.async_save on the same state.

The gap between the ends of two steps is a step; after a step that saves it is longer by the stall.
The share is of all the time from one save to the next: stall and slower steps while the save is
written in the background, against steps with no save under way.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import processes
import tessera_steps
from processes import PROGRAM

SHAPE = {"layers": 6, "hidden": 768, "heads": 12, "sequence": 64, "batch": 2, "vocabulary": 256}


def tessera(options, folder, asynchronous):
    """When each step ended, as this process reads it."""
    settings = {
        "run.steps": options.saves * options.every,
        "run.out": folder,
        "data.path": tessera_steps.training_data(),
        "device.threads": options.threads,
        "model.layers": SHAPE["layers"],
        "model.hidden": SHAPE["hidden"],
        "model.heads": SHAPE["heads"],
        "batch.sequence_length": SHAPE["sequence"],
        "batch.global": SHAPE["batch"],
        "batch.micro": SHAPE["batch"],
        "checkpoint.save": True,
        "checkpoint.every_steps": options.every,
        "checkpoint.keep": 1,
        "checkpoint.asynchronous": asynchronous,
        "observers.console.type": "console",
        "observers.console.every_steps": 1,
    }
    command = [PROGRAM, "train", tessera_steps.CONFIG, "--json", *tessera_steps.arguments(settings)]
    ends = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if '"loss"' in line:
                ends.append(time.perf_counter())
    if process.returncode != 0:
        raise processes.Failed(f"{command} ended with {process.returncode}")
    return ends


def torch(options, folder):
    python, environment = processes.peer_python()
    script = Path(__file__).parent / "peers/checkpoint_stall.py"
    command = [python, script, "--data", tessera_steps.training_data(), "--out", folder]
    command += ["--threads", options.threads, "--steps", options.saves * options.every]
    command += ["--every", options.every, "--shape", json.dumps(SHAPE)]
    output = subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, env=environment
    ).stdout
    return json.loads(output)["ends"]


def evaluate(ends, every, saved_before_end):
    """(stall in seconds, its share, share of all slowing) of the saves but the first and last.

    A step's end is seen before its save in Tessera, and after it in the peer's loop.
    """
    gaps = [b - a for a, b in zip(ends, ends[1:])]
    shift = 1 if saved_before_end else 0
    periods = range(2 * every, len(gaps) - every, every)
    last = every // 3  # steps of a period in which nothing is written any more
    quiet = statistics.median(gap for end in periods for gap in gaps[end - last : end - 1])
    stalls, slower = [], []
    for start in periods:  # gaps[start - 1] is between step `start` and the next
        period = gaps[start - 1 - shift : start - 1 - shift + every]
        stalls.append(period[0] - quiet)
        slower.append(sum(period) - every * quiet)
    stall, lost = statistics.median(stalls), statistics.median(slower)
    return stall, stall / (every * quiet), lost / (every * quiet), quiet


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=6)
    parser.add_argument("--every", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    sides = {
        "Tessera, asynchronous": lambda out: (tessera(options, out, True), False),
        "Tessera, at once": lambda out: (tessera(options, out, False), False),
        "torch.distributed.checkpoint.async_save": lambda out: (torch(options, out), True),
    }
    results = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, run in sides.items():
            data = tessera_steps.training_data().parent
            with tempfile.TemporaryDirectory(dir=data) as folder:
                ends, before = run(folder)
            results[name].append(evaluate(ends, options.every, before))
    print(f"{processes.cpu_model()}; {options.every} steps between saves")
    print(f"{'':<42} {'step':>7} {'stall':>8} {'share':>7} {'with slower steps':>18}")
    for name, rounds in results.items():
        stall, share, lost, quiet = (statistics.median(column) for column in zip(*rounds))
        print(f"{name:<42} {quiet:>6.3f}s {stall:>7.3f}s {share:>7.2%} {lost:>18.2%}")


if __name__ == "__main__":
    main()
