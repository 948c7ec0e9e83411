#!/usr/bin/env python3
"""Training and generation beside busy neighbours: what is left of the idle host's speed.

A neighbour is a process that computes without end. With n threads of ours and k neighbours on c
cores, a fair scheduler leaves us c / (n + k) of the idle speed (at most all of it); the table shows
the speed as a share of that. Threads that wait for each other can fall far below: one that is not
running holds up all of them, and waiting threads that spin take the time which it needs.

PyTorch is the peer, with as many threads, under the same neighbours.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
import tessera_steps
from processes import PROGRAM, ROOT

CORES = len(os.sched_getaffinity(0))
SMALL = {"layers": 4, "hidden": 128, "heads": 4, "sequence": 128, "batch": 16}
SETTINGS = {
    "model.layers": SMALL["layers"],
    "model.hidden": SMALL["hidden"],
    "model.heads": SMALL["heads"],
    "batch.sequence_length": SMALL["sequence"],
    "batch.global": SMALL["batch"],
    "batch.micro": SMALL["batch"],
}
TOKENS = SMALL["batch"] * SMALL["sequence"]
GENERATED = 2000  # some 0.5 s: below 0.25 it matters where a new process is put


@contextlib.contextmanager
def neighbours(count):
    """In this script's session, so that they share the cores with what it starts one to one."""
    busy = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(busy) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def tessera(options, ranks, layout):
    """Tokens a second over all timed steps: a median would hide the steps that were held up."""
    settings = {**SETTINGS, **layout, "device.threads": CORES // ranks}
    return TOKENS / tessera_steps.measure(settings, ranks, options.warmup, options.steps).mean


def torch(options):
    python, tuned = processes.peer_python()
    words = [f"--{name}={value}" for name, value in SMALL.items()]
    words += ["--data", str(tessera_steps.training_data()), "--threads", str(CORES)]
    words += ["--warmup", str(options.warmup), "--steps", str(options.steps)]
    command = [python, str(ROOT / "tests/bench/peers/gpt.py"), *words]
    output, _ = processes.run([(command, tuned)], 1)
    return TOKENS / statistics.mean(json.loads(output.splitlines()[-1])["seconds"])


def generate(checkpoint):
    """Tokens a second of `tessera generate`, the start of the program included."""
    command = [PROGRAM, "generate", "--checkpoint", checkpoint, "--prompt", "a"]
    command += ["--tokens", str(GENERATED)]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return GENERATED / (time.perf_counter() - begin)


def checkpoint_in(folder):
    settings = {**SETTINGS, "run.steps": 1, "run.out": folder, "checkpoint.save": True}
    settings["data.path"] = tessera_steps.training_data()
    words = tessera_steps.arguments(settings)
    subprocess.run([PROGRAM, "train", tessera_steps.CONFIG, *words], check=True)
    return folder


def rows(options, checkpoint):
    found = {
        f"train, 1 rank x {CORES} threads": lambda: tessera(options, 1, {}),
        f"train, {CORES} ranks x 1 thread, tensor": lambda: tessera(
            options, CORES, {"parallel.tensor": CORES}
        ),
        f"train, {CORES} ranks x 1 thread, gloo": lambda: tessera(
            options, CORES, {"parallel.tensor": CORES, "comm.type": "gloo"}
        ),
        f"generate, {CORES} threads": lambda: generate(checkpoint),
    }
    if options.torch:
        found[f"PyTorch trains, {CORES} threads"] = lambda: torch(options)
    return {name: run for name, run in found.items() if not options.row or options.row in name}


def fair(count):
    return min(1.0, CORES / (CORES + count))


def measure_rounds(options, checkpoint):
    """speeds[row][neighbours], one of each round."""
    speeds = {}
    for number in range(options.rounds):
        counts = options.neighbours if number % 2 == 0 else options.neighbours[::-1]
        for name, run in rows(options, checkpoint).items():
            for count in counts:
                with neighbours(count):
                    speed = run()
                speeds.setdefault(name, {}).setdefault(count, []).append(speed)
                print(f"{name:36}{count} neighbours {speed:9.0f} tokens/s", file=sys.stderr)
    return speeds


def print_table(options, speeds):
    heads = "".join(f"{f'{count} neighbours':>22}" for count in options.neighbours)
    print(f"tokens/s (share of the fair share of the idle speed)\n{'':36}{heads}")
    for name, by_count in speeds.items():
        idle = statistics.median(by_count[0])
        cells = ""
        for count in options.neighbours:
            speed = statistics.median(by_count[count])
            cells += f"{speed:12.0f} ({speed / (idle * fair(count)):6.1%})"
        print(f"{name:36}{cells}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--row", help="only rows with this in their name")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    if 0 not in options.neighbours:
        sys.exit("--neighbours: 0 must be among them, the idle host is what is compared with")
    print(processes.cpu_model())
    with tempfile.TemporaryDirectory() as folder:
        speeds = measure_rounds(options, checkpoint_in(folder))
    print_table(options, speeds)
    if options.json:
        options.json.write_text(json.dumps(speeds, indent=1))


if __name__ == "__main__":
    main()
