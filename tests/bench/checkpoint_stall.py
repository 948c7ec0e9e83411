#!/usr/bin/env python3
"""How long training stands still for a checkpoint: Tessera, asynchronous and at once, against
torch.distributed.checkpoint.async_save on the same state.

Both sides measure it themselves, around the call after which training goes on: Tessera tells its
observers ("waited"), the peer's loop reads the clock. So a slow step counts as a slow step, and not
as a stall. The share is of the time from one save to the next. What the writing costs the steps
that go on meanwhile is printed apart: how much longer all steps between two saves take than steps
while nothing is written. Sides take turns, a process each; its first save is left out.
"""

import argparse
import json
import os
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
    """Stall of each save, and when each step ended, as this process reads it."""
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
    ends, stalls = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if '"loss"' in line:
                ends.append(time.perf_counter())
            if '"waited"' in line:
                stalls.append(json.loads(line)["waited"])
    if process.returncode != 0:
        raise processes.Failed(f"{command} ended with {process.returncode}")
    return stalls, ends


def torch(options, folder):
    python, environment = processes.peer_python()
    script = Path(__file__).parent / "peers/checkpoint_stall.py"
    command = [python, script, "--data", tessera_steps.training_data(), "--out", folder]
    command += ["--threads", options.threads, "--steps", options.saves * options.every]
    command += ["--every", options.every, "--shape", json.dumps(SHAPE)]
    output = subprocess.run(
        [str(word) for word in command],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    ).stdout
    told = json.loads(output)
    return told["stalls"], told["ends"]


def evaluate(stalls, ends, every):
    """(stall in the middle, the shortest, time between saves, what writing costs the steps)."""
    gaps = [b - a for a, b in zip(ends, ends[1:])]
    # A save's stall lies in the gap before or after the step's end; a period holds one either way.
    periods = [sum(gaps[i : i + every]) for i in range(every, len(gaps) - every, every)]
    last = every // 3  # steps of a period in which nothing is written any more
    quiet = [gap for i in range(2 * every, len(gaps), every) for gap in gaps[i - last : i - 1]]
    own = stalls[1:]
    period, stall = statistics.median(periods), statistics.median(own)
    lost = period - stall - every * statistics.median(quiet)
    return stall, min(own), period, lost / period


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=6)
    parser.add_argument("--every", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.saves < 4 or options.every < 6:
        parser.error("four saves and six steps between them are the least")
    sides = {
        "Tessera, asynchronous": lambda out: tessera(options, out, True),
        "Tessera, at once": lambda out: tessera(options, out, False),
        "torch.distributed.checkpoint.async_save": lambda out: torch(options, out),
    }
    results = {name: [] for name in sides}
    for number in range(options.rounds):
        for name, run in list(sides.items())[:: 1 if number % 2 == 0 else -1]:
            data = tessera_steps.training_data().parent
            with tempfile.TemporaryDirectory(dir=data) as folder:
                results[name].append(evaluate(*run(folder), options.every))
            stall, _, period, _ = results[name][-1]
            print(f"round {number + 1}, {name}: {stall:.3f} s of {period:.1f} s", flush=True)
    print(f"{processes.cpu_model()}; {options.every} steps between saves")
    print(f"{'':<40} {'stall':>8} {'least':>8} {'between':>8} {'share':>7} {'slower steps':>13}")
    for name, rounds in results.items():
        stall, _, period, lost = (statistics.median(column) for column in zip(*rounds))
        least = min(one[1] for one in rounds)
        print(
            f"{name:<40} {stall:>7.3f}s {least:>7.3f}s {period:>7.2f}s {stall / period:>7.2%} "
            f"{lost:>13.2%}"
        )


if __name__ == "__main__":
    main()
