#!/usr/bin/env python3
"""Times rows of train_step.py with further settings against the same rows without, alternating.

    tests/bench/settings.py --row i --with parallel.gradient_dtype=bf16 \\
        --with "parallel.bucket_elements=1000000 check.replicas_every=0"

Prints tokens a second and MiB of each, and the median over rounds of the ratio inside a round.
"""

import argparse
import sys
from dataclasses import replace

import processes
import train_step


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    keys = [row.key for row in train_step.ROWS]
    parser.add_argument("--row", action="append", choices=keys, required=True)
    parser.add_argument("--with", action="append", dest="changes", required=True,
                        metavar="SETTINGS", help='"KEY=VALUE KEY=VALUE"; again for more tries')
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    options = parser.parse_args()
    options.processor, options.dropout = False, 0.0
    return options


def changed(row, change):
    settings = dict(word.split("=", 1) for word in change.split())
    return replace(row, settings={**row.settings, **settings})


def main():
    options = parse()
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps\n")
    print("| row | with | tokens/s | MiB | ratio of speed | of memory |")
    print("|---|---|---|---|---|---|")
    for row in (row for row in train_step.ROWS if row.key in options.row):
        tries = {"": row, **{change: changed(row, change) for change in options.changes}}
        samples = {change: [] for change in tries}
        for number in range(options.rounds):
            order = list(tries) if number % 2 == 0 else list(tries)[::-1]
            for change in order:
                try:
                    sample = train_step.measure_tessera(tries[change], options, None)
                except processes.Failed as failure:
                    sys.exit(f"row {row.key} with {change or 'nothing'} failed: {failure}")
                samples[change].append(sample)
        base = samples[""]
        for change, of in samples.items():
            print(f"| {row.key} | {change or '-'} | {train_step.speed(of):.0f} | "
                  f"{train_step.peak(of):.0f} | {train_step.paired(of, base):.2f} | "
                  f"{train_step.peak(of) / train_step.peak(base):.2f} |", flush=True)


if __name__ == "__main__":
    main()
