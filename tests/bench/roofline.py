#!/usr/bin/env python3
"""What operations achieve of what one core can do, and their share of a training step.

Runs build/bench/ops_bench, experts_bench and peaks_bench (build with -DTESSERA_BENCH=ON) with one
thread and reads processor time. Attainable is the roofline: the FLOPs of registers or the bytes of
a memcpy as large, whichever bounds the operation more. Counts are those of the small model of
train_step.py; with --experts those of its row m, whose layers have experts.

With --compare the operations that multiply are timed under keys of [device] instead, which take
turns:

    roofline.py --compare "" "isa=avx512_bf16" "bf16_matmul=onednn"
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

from processes import BUILD, cpu_model

LAYERS = 6
# How often a step of the model runs an operation. Those with few parameters are left out.
COUNTS = {
    **{product: LAYERS
       for name in ("qkv", "proj", "fc1", "fc2")
       for product in (f"matmul/{name}/forward", f"matmul/{name}/input_gradient",
                       f"linear_weight/{name}")},
    **{f"matmul/head/{kind}": 1 for kind in ("forward", "input_gradient", "weight_gradient")},
    "attention": LAYERS,
    "attention_backward": LAYERS,
    "layernorm": 2 * LAYERS + 1,
    "layernorm_backward_add": 2 * LAYERS,
    "layernorm_backward": 1,
    "layernorm_weight": 2 * LAYERS + 1,
    "gelu": LAYERS,
    "gelu_backward": LAYERS,
    "add": 2 * LAYERS + 1,  # residual sums, position embeddings
    "embedding": 2,  # tokens, positions
    "embedding_weight": 2,
    "dropout": 0,  # what it would take; the model of train_step.py has none
    "whole_cross_entropy": 1,
    "sum_squares": 1,
    "adamw": 1,
}
# The model of row m: 8 experts instead of each MLP, and 8.2 times as many parameters.
PARAMETERS = 8.2
EXPERTS = {
    **{name: count for name, count in COUNTS.items()
       if not name.startswith("gelu") and "/fc" not in name},
    **{f"matmul/router/{kind}": LAYERS for kind in ("forward", "input_gradient")},
    "linear_weight/router": LAYERS,
    "topk_experts": LAYERS,
    "router_weights": LAYERS,
    "router_weights_backward": LAYERS,
    "expert_counts": LAYERS,
    "sort_by_expert": LAYERS,
    "permute_rows": 2 * LAYERS,  # tokens forward, gradients of the sums backward
    "permute_rows/weights": 2 * LAYERS,
    "unpermute_rows": 2 * LAYERS,
    **{product: LAYERS for name in ("up", "down")
       for product in (f"grouped_matmul/{name}/forward", f"grouped_matmul/{name}/input_gradient",
                       f"grouped_weight/{name}")},
    "weighted_activation": LAYERS,
    "weighted_activation_backward": LAYERS,
    "add": COUNTS["add"] + LAYERS,  # both gradients of a layer's input
    "sum_squares": PARAMETERS,
    "adamw": PARAMETERS,
}


def run(program, dtype, repetitions, wanted=".", keys=""):
    """Name -> median of a benchmark's processor time in seconds and its rates."""
    binary = BUILD / "bench" / program
    if not binary.exists():
        sys.exit(f"{binary} is not built; configure with -DTESSERA_BENCH=ON")
    command = [binary, "--benchmark_format=json", f"--benchmark_repetitions={repetitions}",
               f"--benchmark_filter={wanted}", "--benchmark_min_time=0.05"]
    environment = {**os.environ, "TESSERA_BENCH_THREADS": "1", "TESSERA_BENCH_DTYPE": dtype,
                   "TESSERA_BENCH_KEYS": keys}
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ).stdout
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
    taken = {}
    for line in json.loads(output)["benchmarks"]:
        if line["run_type"] != "iteration" or line.get("error_occurred"):
            continue
        seconds = line["cpu_time"] * units[line["time_unit"]]
        work = [line.get(key, 0) * seconds for key in ("flops", "bytes")]  # of one launch
        taken.setdefault(line["run_name"], []).append((seconds, *work))
    return {name: tuple(map(statistics.median, zip(*lines))) for name, lines in taken.items()}


class Roof:
    def __init__(self, dtype, repetitions):
        peaks = run("peaks_bench", dtype, repetitions)
        seconds, flops, _ = peaks[f"peak/{dtype}"]
        self.flops = flops / seconds
        self.copies = {moved: moved / seconds for name, (seconds, _, moved) in peaks.items()
                       if name.startswith("copy/")}

    def bandwidth(self, moved):
        """Returns the bandwidth of the copy nearest in size."""
        return self.copies[min(self.copies, key=lambda size: abs(math.log(size / moved)))]

    def seconds(self, flops, moved):
        return max(flops / self.flops, moved / self.bandwidth(moved))


def rate(value):
    return f"{value / 1e9:.0f}" if value else ""


def compare(dtype, repetitions, choices):
    """One table of all choices: GFLOP/s, and the products and attention of a step in ms."""
    multiplying = [name for name in COUNTS if name.startswith(("matmul", "linear", "attention"))]
    wanted = "^(" + "|".join(multiplying) + ")$"
    rounds = [[run("ops_bench", dtype, 1, wanted, keys) for keys in choices]
              for _ in range(repetitions)]
    print(f"{cpu_model()}; {dtype}, one thread, GFLOP/s of processor time, median of "
          f"{repetitions}\n")
    print("| operation | " + " | ".join(choice or "as it is" for choice in choices) + " |")
    print("|---|" + "---|" * len(choices))
    steps = [0] * len(choices)
    for name in multiplying:
        cells = []
        for i in range(len(choices)):
            seconds = statistics.median(taken[i][name][0] for taken in rounds)
            steps[i] += seconds * COUNTS[name]
            cells.append(rate(rounds[0][i][name][1] / seconds))
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("| of a step, ms | " + " | ".join(f"{1e3 * step:.0f}" for step in steps) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--experts", action="store_true", help="the model with experts")
    parser.add_argument("--compare", nargs="+", metavar="KEYS",
                        help='keys of [device], as "isa=avx2 bf16_matmul=onednn", in one table')
    options = parser.parse_args()
    if options.compare:
        return compare(options.dtype, options.repetitions, options.compare)
    roof = Roof(options.dtype, options.repetitions)
    counts = EXPERTS if options.experts else COUNTS
    wanted = "^(" + "|".join(counts) + ")$"
    taken = run("ops_bench", options.dtype, options.repetitions, wanted)
    if options.experts:
        taken.update(run("experts_bench", options.dtype, options.repetitions, wanted))
    step = sum(taken[name][0] * count for name, count in counts.items())
    print(f"{cpu_model()}; {options.dtype}, one thread, processor time, median of "
          f"{options.repetitions}; registers {rate(roof.flops)} GFLOP/s; a step's operations "
          f"{1e3 * step:.0f} ms\n")
    heads = ("operation", "µs", "GFLOP/s", "attainable", "GB/s", "attainable", "of the roof",
             "of the step")
    print("| " + " | ".join(heads) + " |")
    print("|---|---|---|---|---|---|---|---|")
    for name, count in counts.items():
        seconds, flops, moved = taken[name]
        least = roof.seconds(flops, moved)
        print(f"| {name} | {1e6 * seconds:.0f} | {rate(flops / seconds)} | {rate(flops / least)} | "
              f"{rate(moved / seconds)} | {rate(moved / least)} | {least / seconds:.0%} | "
              f"{seconds * count / step:.1%} |")


if __name__ == "__main__":
    main()
