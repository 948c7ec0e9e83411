#!/usr/bin/env python3
"""Replayed graphs against launches as they are made, in pairs of alternating order.

Small: hidden 64, one sequence of 32 tokens a microbatch, where the host's work for each launch
weighs. Middle: the size of the other benchmarks. MoE: the grouped products of eight experts. Losses
of all sides have to be equal. Microseconds a launch: the seconds of the step by the launches that
`tessera plan` counts for the eager one; kernels are in all of them.
"""

import argparse
import functools
import statistics
import sys
from pathlib import Path

import processes
from tessera_steps import measure, planned

SMALL = {"model.hidden": 64, "model.heads": 4, "model.layers": 6, "batch.sequence_length": 32,
         "batch.micro": 1, "batch.global": 8, "device.threads": 1, "model.vocab_multiple": 8}
MIDDLE = {"batch.micro": 4, "batch.global": 8, "model.layers": 4}
MOE = {**MIDDLE, "model.block.mlp.type": "moe", "model.block.mlp.experts": 8,
       "model.block.mlp.ffn": 768}
CASES = {"small": SMALL, "middle": MIDDLE, "moe": MOE}
POLICIES = {
    "none": {},
    "layer": {"graph.type": "partial"},
    "chunk": {"graph.type": "partial", "graph.join": "chunk"},
    "step": {"graph.type": "full_iteration"},
}
GRAPHS = [policy for policy in POLICIES if policy != "none"]


def measure_round(options, case, backwards):
    taken = {}
    for policy in list(POLICIES)[:: -1 if backwards else 1]:
        settings = {**CASES[case], **POLICIES[policy]}
        taken[policy] = measure(settings, 1, options.warmup, options.steps[case])
        print(f"{case:8}{policy:8}{1e3 * taken[policy].seconds:9.2f} ms", file=sys.stderr)
    for policy, steps in taken.items():
        if steps.losses != taken["none"].losses:
            sys.exit(f"{case}: losses with {policy} are not those without graphs")
    return {policy: steps.seconds for policy, steps in taken.items()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.steps = {"small": 200, "middle": 12, "moe": 12}
    return options


def main():
    options = parse()
    rounds = processes.in_rounds(
        options.rounds, options.cases, functools.partial(measure_round, options))
    print(f"{processes.cpu_model()}; {options.rounds} rounds")
    print(f"{'':8}" + "".join(f"{f'{policy} ms':>10}" for policy in POLICIES)
          + "".join(f"{policy:>8}" for policy in GRAPHS)
          + f"{'launches':>10}" + "".join(f"{f'by {policy}':>10}" for policy in GRAPHS)
          + "".join(f"{f'us {policy}':>10}" for policy in POLICIES))
    summary = {}
    for case, taken in rounds.items():
        ms = {p: 1e3 * statistics.median(r[p] for r in taken) for p in POLICIES}
        gain = {p: statistics.median(r["none"] / r[p] for r in taken) for p in POLICIES}
        ranks = {p: planned({**CASES[case], **POLICIES[p]})["ranks"][0] for p in POLICIES}
        launches = ranks["none"]["launches"]
        replayed = {p: ranks[p]["graphs"]["launches_replayed"] for p in GRAPHS}
        each = {p: 1e3 * ms[p] / launches for p in POLICIES}
        print(f"{case:8}" + "".join(f"{ms[p]:10.2f}" for p in POLICIES)
              + "".join(f"{gain[p]:8.3f}" for p in GRAPHS)
              + f"{launches:10}" + "".join(f"{replayed[p]:10}" for p in GRAPHS)
              + "".join(f"{each[p]:10.2f}" for p in POLICIES))
        summary[case] = {"ms": ms, "gain": gain, "launches": launches, "replayed": replayed,
                         "microseconds": each}
    processes.save(options.json, {"summary": summary, "rounds": rounds})


if __name__ == "__main__":
    main()
