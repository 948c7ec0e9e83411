#!/usr/bin/env python3
"""What it costs to record every step for `observers.trace`, against steps that nobody records.

Pairs of runs of alternating order: without the observer, and with one that records all timed steps.
Small: hidden 64, one sequence of 32 tokens a microbatch, so that there are many actions for little
work. Middle: the size of the other benchmarks. Losses of both sides have to be equal.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import processes
from graphs import MIDDLE, SMALL
from tessera_steps import measure

CASES = {"small": (SMALL, 200), "middle": (MIDDLE, 12)}
SIDES = ("off", "on")


def measure_side(side, settings, warmup, steps, processor):
    """Seconds a step and losses; or processor seconds of a run, which starting it is part of."""
    recorded = {"observers.trace.type": "trace",
                "observers.trace.steps": f"[{warmup + 1}, {warmup + steps}]"}
    taken, used = processes.with_processor_seconds(
        measure, {**settings, **(recorded if side == "on" else {})}, 1, warmup, steps)
    return used / (warmup + steps) if processor else taken.seconds, taken.losses


def measure_round(options, case, backwards):
    settings, steps = CASES[case]
    taken = {side: measure_side(side, settings, options.warmup, steps, options.processor)
             for side in SIDES[:: -1 if backwards else 1]}
    if taken["on"][1] != taken["off"][1]:
        sys.exit(f"{case}: losses with a trace are not those without")
    print(f"{case:8}" + "".join(f"{side:>6}{1e3 * taken[side][0]:9.3f} ms" for side in SIDES),
          file=sys.stderr)
    return {side: seconds for side, (seconds, _) in taken.items()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--processor", action="store_true",
                        help="processor time of whole runs: for a machine that is busy")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    rounds = processes.in_rounds(
        options.rounds, options.cases, functools.partial(measure_round, options))
    print(f"{processes.cpu_model()}; {options.rounds} rounds"
          f"{'; processor time' if options.processor else ''}")
    print(f"{'':8}{'off ms':>10}{'on ms':>10}{'on / off':>10}")
    summary = {}
    for case, taken in rounds.items():
        ms = {side: 1e3 * statistics.median(r[side] for r in taken) for side in SIDES}
        ratio = statistics.median(r["on"] / r["off"] for r in taken)
        print(f"{case:8}{ms['off']:10.3f}{ms['on']:10.3f}{ratio:10.4f}")
        summary[case] = {"ms": ms, "ratio": ratio}
    processes.save(options.json, {"summary": summary, "rounds": rounds})


if __name__ == "__main__":
    main()
