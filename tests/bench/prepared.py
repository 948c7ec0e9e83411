#!/usr/bin/env python3
"""Weights that are packed once a step against weights that each product packs, by turns.

The small model of train_step.toml with 1, 4 and 8 microbatches of two sequences a step, one thread.
Processor time of a step: that of a long run without that of a short one. Losses of both sides have
to be equal.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import processes
from tessera_steps import measure

MICROBATCHES = (1, 4, 8)
SIDES = {"each": False, "prepared": True}
SHORT = 2


def seconds_of(settings, steps):
    taken, seconds = processes.with_processor_seconds(measure, settings, 1, 0, steps)
    return seconds, taken.losses


def measure_round(options, microbatches, backwards):
    taken, losses = {}, {}
    for side in list(SIDES)[:: -1 if backwards else 1]:
        settings = {"precision.compute": options.compute, "precision.prepare_weights": SIDES[side],
                    "batch.micro": 2, "batch.global": 2 * microbatches, "device.threads": 1}
        steps = options.steps // microbatches
        short, _ = seconds_of(settings, SHORT)
        long, losses[side] = seconds_of(settings, SHORT + steps)
        taken[side] = (long - short) / steps
        print(f"{microbatches:3} {side:9}{1e3 * taken[side]:9.2f} ms", file=sys.stderr)
    if losses["each"] != losses["prepared"] and not options.rounded:
        sys.exit(f"{microbatches} microbatches: losses differ")
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=24, help="of one microbatch; fewer of more")
    parser.add_argument("--compute", default="bf16", choices=["bf16", "fp16"])
    parser.add_argument("--rounded", action="store_true", help="losses may differ: oneDNN's bf16")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rounds = processes.in_rounds(
        options.rounds, MICROBATCHES, functools.partial(measure_round, options))
    print(f"{processes.cpu_model()}; {options.compute}; {options.rounds} rounds")
    print(f"{'m':>3}" + "".join(f"{f'{side} ms':>14}" for side in SIDES) + f"{'ratio':>8}")
    for microbatches, taken in rounds.items():
        ms = {side: 1e3 * statistics.median(r[side] for r in taken) for side in SIDES}
        ratio = statistics.median(r["each"] / r["prepared"] for r in taken)
        times = "".join(f"{ms[side]:14.2f}" for side in SIDES)
        print(f"{microbatches:3}{times}{ratio:8.3f}")
    processes.save(options.json, {"rounds": rounds})


if __name__ == "__main__":
    main()
