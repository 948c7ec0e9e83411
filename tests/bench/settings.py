#!/usr/bin/env python3
"""Times rows of train_step.py with further settings against the same rows without, alternating.

    tests/bench/settings.py --row i --with parallel.gradient_dtype=bf16 \\
        --with "parallel.bucket_elements=1000000 check.replicas_every=0"
    tests/bench/settings.py --row la --row le --with plain
    tests/bench/settings.py --row ba --with "data.mask_probability=0.99 model.head.predictions=128"

A word in capitals is a variable of the environment: --with GOMP_SPINCOUNT=1000000. "plain" stands
for LayerNorm, GELU and learned positions at equal FLOPs, in rows la to lf. Where all words of BERT
are masked, its head computes all rows.
Prints tokens a second and MiB of each, and the median over rounds of the ratio inside a round.
"""

import argparse
import os
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
                        metavar="SETTINGS",
                        help='"KEY=VALUE KEY=VALUE", or plain; again for more tries')
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--processor", action="store_true",
                        help="one thread, and processor time instead of time")
    options = parser.parse_args()
    options.dropout = 0.0
    return options


def measure(row, change, options):
    words = (train_step.PLAIN_SETTINGS if change == "plain"
             else dict(word.split("=", 1) for word in change.split()))
    variables = {key: value for key, value in words.items() if key.isupper()}
    settings = {key: value for key, value in words.items() if key not in variables}
    before = dict(os.environ)
    os.environ.update(variables)  # the processes inherit it
    try:
        changed = replace(row, settings={**row.settings, **settings})
        return train_step.measure_tessera(changed, options, None)
    finally:
        os.environ.clear()
        os.environ.update(before)


def main():
    options = parse()
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps\n")
    print("| row | with | tokens/s | MiB | ratio of speed | of memory |")
    print("|---|---|---|---|---|---|")
    for row in (row for row in train_step.ROWS if row.key in options.row):
        tries = ["", *options.changes]
        samples = {change: [] for change in tries}
        for number in range(options.rounds):
            order = tries if number % 2 == 0 else tries[::-1]
            for change in order:
                try:
                    sample = measure(row, change, options)
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
