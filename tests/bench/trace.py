#!/usr/bin/env python3
"""What it costs to record every step for `observers.trace`, against steps that nobody records.

A run records one half of its timed steps, the first or the second half in turn, so that both sides
are steps of the same process; what differs between processes, and drifts within one, cancels out.
Seconds are those of a step on the device. What a step's record takes beside it (marks at its begin
and its end that the host waits for) is not in them.
Small: hidden 64, one sequence of 32 tokens a microbatch, so that there are many actions for little
work. Middle: the size of the other benchmarks. Losses of all runs have to be equal.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import processes
from graphs import MIDDLE, SMALL
from tessera_steps import measure

CASES = {"small": (SMALL, 400), "middle": (MIDDLE, 12)}  # settings, and steps of a half


def measure_round(options, seen, case, backwards):
    settings, half = CASES[case]
    middle = options.warmup + half
    first = options.warmup + 1 if backwards else middle + 1
    recorded = {"observers.trace.type": "trace",
                "observers.trace.steps": f"[{first}, {first + half - 1}]"}
    run = measure({**settings, **recorded}, 1, options.warmup, 2 * half)
    if seen.setdefault(case, run.losses) != run.losses:
        sys.exit(f"{case}: losses depend on which steps are recorded")
    halves = [statistics.median(run.each[:half]), statistics.median(run.each[half:])]
    taken = dict(zip(("on", "off") if backwards else ("off", "on"), halves))
    print(f"{case:8}" + "".join(f"{side:>6}{1e3 * taken[side]:9.3f} ms" for side in ("off", "on")),
          file=sys.stderr)
    return taken


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="an even number is fair to both")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    rounds = processes.in_rounds(
        options.rounds, options.cases, functools.partial(measure_round, options, {}))
    print(f"{processes.cpu_model()}; {options.rounds} rounds")
    print(f"{'':8}{'off ms':>10}{'on ms':>10}{'on / off':>10}")
    summary = {}
    for case, taken in rounds.items():
        ms = {side: 1e3 * statistics.median(r[side] for r in taken) for side in ("off", "on")}
        # Uses two rounds one after the other, so that a drift counts once for and once against.
        ratios = [r["on"] / r["off"] for r in taken]
        pairs = [(a * b) ** 0.5 for a, b in zip(ratios[::2], ratios[1::2])] or ratios
        ratio = statistics.median(pairs)
        print(f"{case:8}{ms['off']:10.3f}{ms['on']:10.3f}{ratio:10.4f}")
        summary[case] = {"ms": ms, "ratio": ratio, "pairs": pairs}
    processes.save(options.json, {"summary": summary, "rounds": rounds})


if __name__ == "__main__":
    main()
