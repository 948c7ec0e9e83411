"""Training steps of Tessera as the benchmarks measure them, and what `tessera plan` predicts."""

import json
import random
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import processes
from processes import PROGRAM, ROOT

CONFIG = ROOT / "tests/bench/train_step.toml"


@dataclass
class Steps:
    seconds: float  # median of the timed steps
    mean: float  # of the same, in seconds
    tokens_per_second: float
    losses: list
    peaks_mib: list  # largest processes first
    each: list  # seconds of the timed steps


def training_data(seed=7, size=4 << 20):
    """A file of random printable characters: bytes for both sides, and text for any tokenizer."""
    path = ROOT / f"build/bench-data/random-{seed}.txt"
    if not path.exists() or path.stat().st_size != size:
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = random.Random(seed).randbytes(size)
        path.write_bytes(noise.translate(bytes(33 + i % 94 for i in range(256))))
    return path


def arguments(settings):
    """TOML has its own words for true and false."""
    words = {True: "true", False: "false"}
    pairs = [(key, words[v] if isinstance(v, bool) else v) for key, v in settings.items()]
    return [word for key, value in pairs for word in ("--set", f"{key}={value}")]


def measure(settings, ranks, warmup, steps, copies=1):
    """Steps of a fresh run; of `copies` of it at the same time, the slowest."""
    data = training_data()
    with tempfile.TemporaryDirectory(dir=data.parent) as folder:
        outs = [Path(folder, str(copy)) for copy in range(copies)]
        run = {"run.steps": warmup + steps, "data.path": data, **settings}
        commands = [
            ([PROGRAM, "train", CONFIG, *arguments({**run, "run.out": out})], {}) for out in outs
        ]
        _, peaks = processes.run(commands, ranks)
        runs = [
            [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]
            for out in outs
        ]
    timed = lambda lines, key: statistics.median(line[key] for line in lines[warmup:])
    slowest = max(runs, key=lambda lines: timed(lines, "seconds"))
    losses = [line["loss"] for line in slowest]
    each = [line["seconds"] for line in slowest[warmup:]]
    speed = timed(slowest, "tokens_per_second")
    return Steps(timed(slowest, "seconds"), statistics.mean(each), speed, losses, peaks, each)


def planned(settings, hardware="cpu-host"):
    """What `tessera plan` says of the same run on a machine of configs/hardware."""
    run = {"run.steps": 1, "data.path": training_data(), **settings}
    table = ROOT / f"configs/hardware/{hardware}.toml"
    command = [PROGRAM, "plan", CONFIG, "--json", "--hardware", table, *arguments(run)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
    return json.loads(output)


def apart(losses, others):
    """The largest difference between two runs."""
    return max(abs(x - y) for x, y in zip(losses, others, strict=True))
