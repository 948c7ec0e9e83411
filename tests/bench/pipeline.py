#!/usr/bin/env python3
"""The bubble of every pipeline schedule: measured on two ranks beside what is predicted.

GPT with 8 blocks, 384 wide, a vocabulary of bytes, 8 microbatches of one sequence. One rank does
the same work with the same microbatches; on p ranks as fast as that one it would take 1/p of the
time. What a pipeline takes longer is its bubble: 1 - t(one rank) / (p * t(pipeline)). That holds
everything a pipeline costs, messages included, and what cores slow each other down; the second
column therefore takes t(one rank) while p copies of it run at once.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import processes
from processes import PROGRAM
from tessera_steps import apart, measure, planned

RANKS = 2
MICROBATCHES = 8
SCHEDULES = {
    "gpipe": {},
    "1f1b": {},
    "interleaved_1f1b": {"schedule.chunks": 2},
    "zb_h1": {},
    "zbv": {},
    "dualpipe_v": {},
}
MODEL = {
    "model.layers": 8,
    "batch.global": MICROBATCHES,
    "batch.micro": 1,
    "device.threads": 1,
}
ALONE, COPIES = "one rank", f"{RANKS} x one rank at once"


def settings_of(schedule):
    return {
        **MODEL,
        "parallel.pipeline": RANKS,
        "schedule.type": schedule,
        **SCHEDULES[schedule],
    }


def measure_round(options, names, backwards):
    runs = {
        ALONE: lambda: measure(MODEL, 1, options.warmup, options.steps),
        COPIES: lambda: measure(MODEL, RANKS, options.warmup, options.steps, copies=RANKS),
    }
    for name in names:
        settings = settings_of(name)
        runs[name] = lambda s=settings: measure(s, RANKS, options.warmup, options.steps)
    taken = {}
    for name in sorted(runs, key=list(runs).index, reverse=backwards):
        taken[name] = runs[name]()
        print(f"{name:28}{1e3 * taken[name].seconds:8.1f} ms", file=sys.stderr)
    for name in names:
        if (difference := apart(taken[name].losses, taken[ALONE].losses)) > 1e-4:
            sys.exit(f"{name}: losses are {difference:.1e} from those of one rank")
    return {name: steps.seconds for name, steps in taken.items()}


def predicted(name):
    """Bubbles of the schedule alone (unit times) and of the whole step on plan's hardware."""
    command = [PROGRAM, "schedule", name, "--json"]
    command += ["--ranks", RANKS, "--microbatches", MICROBATCHES]
    for key, value in SCHEDULES[name].items():
        command += ["--set", f"{key.removeprefix('schedule.')}={value}"]
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout
    plan = planned(settings_of(name))
    return {"schedule": json.loads(output)["bubble"], "plan": plan["bubble"],
            "plan_step_ms": 1e3 * plan["step_seconds"]}


def bubble(rounds, name, reference):
    """Formed inside each round: a slow minute hits both."""
    return statistics.median(1 - r[reference] / (RANKS * r[name]) for r in rounds)


def summarise(rounds, names):
    milliseconds = lambda name: 1e3 * statistics.median(r[name] for r in rounds)
    lines = {name: {"step_ms": milliseconds(name)} for name in (ALONE, COPIES)}
    for name in names:
        lines[name] = {
            "step_ms": milliseconds(name),
            "bubble": bubble(rounds, name, ALONE),
            "bubble_of_copies": bubble(rounds, name, COPIES),
            "predicted": predicted(name),
        }
    return lines


def print_table(lines):
    print(f"bubble: 1 - t(one rank) / ({RANKS} t(pipeline)); at once: t of {RANKS} copies at once")
    print("predicted by `tessera schedule` (unit times) and `tessera plan` (a small CPU host)")
    heads = ("ms/step", "bubble", "at once", "schedule", "plan")
    print(f"{'':28}" + "".join(f"{head:>10}" for head in heads))
    for name, line in lines.items():
        cells = [f"{line['step_ms']:.1f}"]
        if "bubble" in line:
            values = (line["bubble"], line["bubble_of_copies"])
            values += (line["predicted"]["schedule"], line["predicted"]["plan"])
            cells += [f"{value:.3f}" for value in values]
        print(f"{name:28}" + "".join(f"{cell:>10}" for cell in cells))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument(
        "--schedule", action="append", choices=SCHEDULES, help="again for more; all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    names = [name for name in SCHEDULES if not options.schedule or name in options.schedule]
    try:
        rounds = [
            measure_round(options, names, number % 2 == 1) for number in range(options.rounds)
        ]
    except processes.Failed as failure:
        sys.exit(f"failed: {failure}")
    lines = summarise(rounds, names)
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps")
    print_table(lines)
    processes.save(options.json, {"rounds": rounds, "summary": lines})


if __name__ == "__main__":
    main()
