"""Attention of 8 documents in a sample of 2,048, and of a window of 256, against all keys; of
samples of 512 that see both sides and are half padding, against full ones: forward and backward, in
fp32 and bf16."""

import csv
import io
import os

import processes

from corpus.measuring import in_turns, output, say_ratio

LONG = {"2048": None, "2048/documents": "0.25", "2048/window": "0.35"}
PADDED = {"512/full": None, "512/half": "0.4"}


def bench(options, _):
    compare_all(options, LONG)


def bench_padding(options, _):
    compare_all(options, PADDED)


def compare_all(options, cases):
    threads = "1" if options.processor else "2"
    for dtype in ("fp32", "bf16"):
        os.environ |= {"TESSERA_BENCH_DTYPE": dtype, "TESSERA_BENCH_THREADS": threads}
        for operation in ("attention", "attention_backward"):
            compare(options, cases, f"{operation} {dtype}", operation)


def compare(options, cases, name, operation):
    def side(case):
        def run():
            table = output(processes.BUILD / "bench/ops_bench", "--benchmark_format=csv",
                           "--benchmark_min_time=0.3",
                           f"--benchmark_filter=^{operation}/{case}$")
            row = list(csv.DictReader(io.StringIO(table)))[0]
            return float(row["cpu_time" if options.processor else "real_time"]) / 1e6
        return run

    taken = in_turns(options, name, {case: side(case) for case in cases}, "ms")
    whole = next(iter(cases))
    for case, goal in cases.items():
        if goal:
            say_ratio(name, taken, case, whole, goal)
