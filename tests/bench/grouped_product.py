#!/usr/bin/env python3
"""The products of a mixture's experts in one launch, against a loop of ours and against PyTorch.

Runs build/bench/grouped_bench (build with -DTESSERA_BENCH=ON) and peers/grouped.py in turn; a ratio
is formed in each round, then its median. PyTorch is the faster of a loop and `grouped_mm`, where
its CPU build has that. The load "changing" is another one at every launch; PyTorch, whose time
does not depend on that, is measured balanced.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from processes import BUILD, ROOT, cpu_model, peer_python

LAYERS = {"up": (384, 3072), "down": (1536, 384)}
PRODUCTS = ("forward", "input_gradient", "weight_gradient")
LOADS = {"balanced": [512] * 8, "hot": [256, 2560, 300, 0, 212, 280, 248, 240]}
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16"}


def ours(options):
    """Milliseconds by name, "grouped/up/forward/hot" and "loop/…"."""
    binary = BUILD / "bench/grouped_bench"
    if not binary.exists():
        sys.exit(f"{binary} is not built; configure with -DTESSERA_BENCH=ON")
    command = [binary, "--benchmark_format=json", f"--benchmark_min_time={options.seconds}"]
    environment = {"TESSERA_BENCH_THREADS": str(options.threads),
                   "TESSERA_BENCH_DTYPE": options.dtype}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            env={**os.environ, **environment}).stdout
    units = {"ns": 1e-6, "us": 1e-3, "ms": 1.0}
    return {line["name"].removesuffix("/real_time"): line["real_time"] * units[line["time_unit"]]
            for line in json.loads(output)["benchmarks"]}


def torch(options):
    python, environment = peer_python()
    wanted = {"layers": LAYERS, "loads": LOADS, "threads": options.threads,
              "dtype": TORCH_NAMES[options.dtype], "seconds": options.seconds}
    done = subprocess.run([python, ROOT / "tests/bench/peers/grouped.py"], check=True,
                          input=json.dumps(wanted), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **environment})
    found = json.loads(done.stdout)
    best = {}
    for name, taken in found.items():
        _, rest = name.split("/", 1)
        best[rest] = min(taken, best.get(rest, taken))
    return best, any(name.startswith("grouped_mm") for name in found)


def measure_rounds(options):
    rounds, has_grouped = [], False
    for number in range(options.rounds):
        taken = {}
        for side in (("ours", "torch"), ("torch", "ours"))[number % 2]:
            if side == "ours":
                taken["ours"] = ours(options)
            elif options.torch:
                taken["torch"], has_grouped = torch(options)
        rounds.append(taken)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return rounds, has_grouped


def rows(rounds):
    for layer in LAYERS:
        for product in PRODUCTS:
            for load in (*LOADS, "changing"):
                name = f"{layer}/{product}/{load}"
                peer = name.replace("changing", "balanced")
                grouped = [r["ours"][f"grouped/{name}"] for r in rounds]
                loop = [r["ours"][f"loop/{name}"] for r in rounds]
                torch_ms = [r["torch"][peer] for r in rounds if "torch" in r]
                yield name, grouped, loop, torch_ms


def median_ratio(above, below):
    return statistics.median(a / b for a, b in zip(above, below))


def print_table(rounds):
    print("| product | ours ms | a loop of ours ms | ratio | PyTorch ms | ratio |\n"
          "|---|---|---|---|---|---|")
    for name, grouped, loop, torch_ms in rows(rounds):
        peer = "| | |"
        if torch_ms:
            peer = f"| {statistics.median(torch_ms):.2f} | {median_ratio(torch_ms, grouped):.2f} |"
        print(f"| {name} | {statistics.median(grouped):.2f} | {statistics.median(loop):.2f} | "
              f"{median_ratio(loop, grouped):.2f} {peer}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=TORCH_NAMES, default="fp32")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a measurement, at least")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    options = parser.parse_args()
    rounds, has_grouped = measure_rounds(options)
    print(f"{cpu_model()}, {options.threads} threads, {options.dtype}")
    if options.torch and not has_grouped:
        print("PyTorch: a loop; this build has no grouped_mm on the CPU")
    print_table(rounds)


if __name__ == "__main__":
    main()
