#!/usr/bin/env python3
"""Communication that overlaps compute, against communication that does not: gradient reduction and
parameter gathers, and exchanges of experts.

Reductions: two replicas with one thread each, small batches (128 tokens a replica and step, 14
million parameters), so that communication weighs. On: buckets of parallel.bucket_elements, each
reduced as soon as its gradients are there, and under ZeRO-1 gathered while the phases before its
first reader run. Off: one bucket larger than all parameters, ready only at the end of the backward
pass, and gathered before the first phase. Below both the same step without communication: two runs
of one replica at once.

Experts: two ranks with one thread each share eight experts (6 layers, 384 wide, 2,048 tokens a
step, four microbatches a rank). On: schedule.overlap, which pairs each forward with a backward.
Off: one after the other. Losses are the same bits. The plan is also made for a machine with GPUs.
"""

import argparse
import functools
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
NONE, OFF, ON = "no communication", "one bucket", "buckets, overlapped"
COMMUNICATORS = ("shm", "gloo")
CASES = ("reductions", "experts")
EXPERTS = {
    "batch.global": 8,
    "batch.micro": 1,
    "device.threads": 1,
    "parallel.data": REPLICAS,
    "parallel.expert": REPLICAS,
    "model.block.mlp.type": "moe",
    "model.block.mlp.experts": 8,
    "model.block.mlp.ffn": 768,
    "schedule.type": "sequential",
}
HARDWARE = ("cpu-host", "v100-dgx2")
OPTIMIZERS = ("replicated", "distributed")


def settings_of(options, kind, optimizer):
    if kind == NONE:
        return ONE
    bucket = ONE_BUCKET if kind == OFF else options.bucket
    return {**BOTH, "parallel.bucket_elements": bucket, "optimizer.type": optimizer}


def measure_round(options, communicator, backwards):
    """By (kind, optimizer); without communication there is only one."""
    taken = {}
    cases = [(NONE, OPTIMIZERS[0])] + [(kind, o) for o in OPTIMIZERS for kind in (OFF, ON)]
    for kind, optimizer in cases[:: -1 if backwards else 1]:
        settings = {**settings_of(options, kind, optimizer), "comm.type": communicator}
        copies = REPLICAS if kind == NONE else 1
        steps = measure(settings, REPLICAS, options.warmup, options.steps, copies)
        taken[kind, optimizer] = steps
        print(f"{communicator:6}{optimizer:13}{kind:22}{1e3 * steps.seconds:8.1f} ms",
              file=sys.stderr)
    for kind, optimizer in cases[1:]:
        difference = apart(taken[kind, optimizer].losses, taken[OFF, OPTIMIZERS[0]].losses)
        if difference > 1e-4:
            sys.exit(f"{communicator}, {optimizer}: losses are {difference:.1e} apart")
    return {case: steps.seconds for case, steps in taken.items()}


def summarise(rounds, optimizer):
    middle = lambda values: statistics.median(list(values))
    of = lambda taken, kind: taken[kind, OPTIMIZERS[0] if kind == NONE else optimizer]
    line = {kind: 1e3 * middle(of(r, kind) for r in rounds) for kind in (NONE, OFF, ON)}
    line["off_over_on"] = middle(of(r, OFF) / of(r, ON) for r in rounds)
    return line


def plan(options):
    """Seconds of each case, and what share of the communication the plan hides."""
    cases = [(NONE, OPTIMIZERS[0])] + [(kind, o) for o in OPTIMIZERS for kind in (OFF, ON)]
    plans = {case: planned(settings_of(options, *case)) for case in cases}
    return {case: predicted["step_seconds"] for case, predicted in plans.items()}, {
        case: hidden_share(predicted["pipeline_ranks"][0]) for case, predicted in plans.items()}


def hidden_share(rank):
    whole = sum(rank[kind]["seconds"] for kind in ("reduce", "gather"))
    hidden = sum(rank[kind]["hidden_seconds"] for kind in ("reduce", "gather"))
    return hidden / whole if whole else None


def print_table(lines, hidden, options):
    print(f"ms/step; on: buckets of {options.bucket} elements; off / on paired by round, median")
    heads = (NONE, "off", "on", "off / on")
    print(f"{'':32}" + "".join(f"{head:>18}" for head in heads))
    for (name, optimizer), line in lines.items():
        cells = [f"{line[kind]:.1f}" for kind in (NONE, OFF, ON)] + [f"{line['off_over_on']:.2f}"]
        print(f"{name + ', ' + optimizer:32}" + "".join(f"{cell:>18}" for cell in cells))
    for optimizer in OPTIMIZERS:
        shares = ", ".join(
            f"{kind} {100 * hidden[kind, optimizer]:.0f} %" for kind in (OFF, ON))
        print(f"planned to be hidden, {optimizer}: {shares}")


def measure_pairs(options, communicator, backwards):
    """Seconds of a step with experts, by whether passes overlap."""
    taken = {}
    for on in (False, True)[:: -1 if backwards else 1]:
        settings = {**EXPERTS, "schedule.overlap": on, "comm.type": communicator}
        taken[on] = measure(settings, REPLICAS, options.warmup, options.steps)
        print(f"{communicator:6}experts, pairs {'on' if on else 'off':4}"
              f"{1e3 * taken[on].seconds:8.1f} ms", file=sys.stderr)
    if taken[True].losses != taken[False].losses:
        sys.exit(f"{communicator}: losses with pairs are not those without")
    return {"on" if on else "off": steps.seconds for on, steps in taken.items()}


def compare_pairs(options):
    rounds = processes.in_rounds(
        options.rounds, COMMUNICATORS, functools.partial(measure_pairs, options))
    for hardware in HARDWARE:
        seconds = {kind: planned({**EXPERTS, "schedule.overlap": kind == "on"}, hardware)
                   for kind in ("off", "on")}
        rounds[f"planned, {hardware}"] = [{k: p["step_seconds"] for k, p in seconds.items()}]
    print("experts on two ranks, ms/step; off / on paired by round, median")
    print(f"{'':32}{'off':>18}{'pairs':>18}{'off / pairs':>18}")
    lines = {}
    for name, taken in rounds.items():
        line = {kind: 1e3 * statistics.median(r[kind] for r in taken) for kind in ("off", "on")}
        line["off_over_on"] = statistics.median(r["off"] / r["on"] for r in taken)
        print(f"{name:32}{line['off']:18.1f}{line['on']:18.1f}{line['off_over_on']:18.3f}")
        lines[name] = line
    return {"summary": lines, "rounds": rounds}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--bucket", type=int, default=1_000_000, help="elements, overlap on")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def compare_reductions(options):
    rounds = processes.in_rounds(
        options.rounds, COMMUNICATORS, functools.partial(measure_round, options))
    seconds, hidden = plan(options)
    taken = {**rounds, "planned": [seconds]}
    lines = {(name, optimizer): summarise(of, optimizer)
             for name, of in taken.items() for optimizer in OPTIMIZERS}
    print_table(lines, hidden, options)
    flat = lambda of: {" ".join(case): value for case, value in of.items()}
    return {"summary": flat(lines), "hidden": flat(hidden),
            "rounds": {name: [flat(r) for r in of] for name, of in rounds.items()}}


def main():
    options = parse()
    compare = {"reductions": compare_reductions, "experts": compare_pairs}
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps")
    processes.save(options.json, {case: compare[case](options) for case in options.cases})


if __name__ == "__main__":
    main()
