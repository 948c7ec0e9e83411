#!/usr/bin/env python3
"""Gradient reduction that overlaps the backward pass, against one that follows it.

Two replicas with one thread each, small batches (128 tokens a replica and step, 14 million
parameters), so that reduction weighs. On: buckets of parallel.bucket_elements, each reduced as
soon as its gradients are there. Off: one bucket larger than all parameters, ready only at the end
of the backward pass. Below both the same step without reduction: two runs of one replica at once.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import processes
from tessera_steps import apart, measure, planned

REPLICAS = 2
MODEL = {
    "model.layers": 8,
    "batch.sequence_length": 128,
    "batch.micro": 1,
    "device.threads": 1,
}
ONE = {**MODEL, "batch.global": 1}
BOTH = {**MODEL, "batch.global": REPLICAS, "parallel.data": REPLICAS}
ONE_BUCKET = 1_000_000_000
NONE, OFF, ON = "no reduction", "one bucket, at the end", "buckets, overlapped"


def settings_of(options, kind):
    if kind == NONE:
        return ONE
    return {**BOTH, "parallel.bucket_elements": ONE_BUCKET if kind == OFF else options.bucket}


def measure_round(options, communicator, backwards):
    taken = {}
    for kind in (NONE, OFF, ON)[:: -1 if backwards else 1]:
        settings = {**settings_of(options, kind), "comm.type": communicator}
        copies = REPLICAS if kind == NONE else 1
        taken[kind] = measure(settings, REPLICAS, options.warmup, options.steps, copies)
        print(f"{communicator:6}{kind:26}{1e3 * taken[kind].seconds:8.1f} ms", file=sys.stderr)
    if (difference := apart(taken[ON].losses, taken[OFF].losses)) > 1e-4:
        sys.exit(f"{communicator}: losses are {difference:.1e} apart")
    return {kind: steps.seconds for kind, steps in taken.items()}


def summarise(rounds):
    middle = lambda values: statistics.median(list(values))
    line = {kind: 1e3 * middle(r[kind] for r in rounds) for kind in (NONE, OFF, ON)}
    line["off_over_on"] = middle(r[OFF] / r[ON] for r in rounds)
    return line


def print_table(lines, options):
    print(f"ms/step; on: buckets of {options.bucket} elements; off / on paired by round, median")
    heads = ("no reduction", "off", "on", "off / on")
    print(f"{'':28}" + "".join(f"{head:>14}" for head in heads))
    for name, line in lines.items():
        cells = [f"{line[kind]:.1f}" for kind in (NONE, OFF, ON)] + [f"{line['off_over_on']:.2f}"]
        print(f"{name:28}" + "".join(f"{cell:>14}" for cell in cells))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--bucket", type=int, default=1_000_000, help="elements, overlap on")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    rounds = {"shm": [], "gloo": []}
    try:
        for number in range(options.rounds):
            for communicator, taken in rounds.items():
                taken.append(measure_round(options, communicator, number % 2 == 1))
    except processes.Failed as failure:
        sys.exit(f"failed: {failure}")
    lines = {communicator: summarise(taken) for communicator, taken in rounds.items()}
    plans = {kind: planned(settings_of(options, kind))["step_seconds"] for kind in (NONE, OFF, ON)}
    lines["planned, a small CPU host"] = summarise([plans])
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps")
    print_table(lines, options)
    if options.json:
        record = {"machine": processes.cpu_model(), "rounds": rounds, "summary": lines}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
