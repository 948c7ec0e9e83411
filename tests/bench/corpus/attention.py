"""Attention of 8 documents in a sample of 2,048, and of a window of 256, against all keys: forward
and backward, in fp32 and bf16."""

import csv
import io
import os

import processes

from corpus.measuring import in_turns, output, say_ratio

CASES = {"": None, "/documents": "0.25", "/window": "0.35"}


def bench(options, _):
    threads = "1" if options.processor else "2"
    for dtype in ("fp32", "bf16"):
        os.environ |= {"TESSERA_BENCH_DTYPE": dtype, "TESSERA_BENCH_THREADS": threads}
        for operation in ("attention", "attention_backward"):
            compare(options, f"{operation} {dtype}", operation)


def compare(options, name, operation):
    def side(case):
        def run():
            table = output(processes.BUILD / "bench/ops_bench", "--benchmark_format=csv",
                           "--benchmark_min_time=0.3",
                           f"--benchmark_filter=^{operation}/2048{case}$")
            row = list(csv.DictReader(io.StringIO(table)))[0]
            return float(row["cpu_time" if options.processor else "real_time"]) / 1e6
        return run

    sides = {f"2048{case}": side(case) for case in CASES}
    taken = in_turns(options, name, sides, "ms")
    for case, goal in CASES.items():
        if goal:
            say_ratio(name, taken, f"2048{case}", "2048", goal)
