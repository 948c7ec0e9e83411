#!/usr/bin/env python3
"""What bounding the spin of OpenMP's threads costs on an idle host: short trainings in pairs.

    tests/bench/spin.py                          # 2000 turns, Tessera's, against libgomp's 300,000
    tests/bench/spin.py --dtype bf16 --pairs 60

The small GPT of busy_host.py, one rank with a thread for each core. Prints the mean ratio of the
time of a step, bounded / unbounded, over all pairs and its standard error: single pairs scatter by
more than the loss that is looked for.
"""

import argparse
import math
import os
import statistics
import sys

import busy_host
import processes


def step_seconds(spin, options):
    os.environ["GOMP_SPINCOUNT"] = str(spin)
    speed = busy_host.tessera(options, 1, {"precision.compute": options.dtype})
    return busy_host.TOKENS / speed


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spin", type=int, default=2000)
    parser.add_argument("--against", type=int, default=300000)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of a training")
    parser.add_argument("--warmup", type=int, default=3)
    return parser.parse_args()


def main():
    options = parse()
    logs, both = [], {options.spin: [], options.against: []}
    for number in range(options.pairs):
        order = list(both) if number % 2 == 0 else list(both)[::-1]
        for spin in order:
            both[spin].append(step_seconds(spin, options))
        logs.append(math.log(both[options.spin][-1] / both[options.against][-1]))
        print(f"pair {number + 1}: {math.exp(logs[-1]):.3f}", file=sys.stderr)
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    bounded, unbounded = (1e3 * statistics.median(seconds) for seconds in both.values())
    print(f"{processes.cpu_model()}; {options.dtype}, {options.pairs} pairs "
          f"of {options.steps} steps")
    print(f"medians: {options.spin} turns {bounded:.2f} ms, {options.against} {unbounded:.2f} ms")
    print(f"time of a step {math.exp(mean):.4f} of the other's, ± {error:.4f} (standard error); "
          f"median pair {math.exp(statistics.median(logs)):.4f}")


if __name__ == "__main__":
    main()
