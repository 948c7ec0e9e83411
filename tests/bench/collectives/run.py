#!/usr/bin/env python3
"""All-reduce between two ranks of this host: Tessera, its peers and the speed of memory.

Microseconds at 64 KiB, 1 MiB and 16 MiB (float, sum, in place). Every measurement is a run of its
own and prints {"bytes": N, "median_us": T}; a round measures all programs in turn, and the table
shows the median over rounds. What is not built or installed is left out and named.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import processes  # noqa: E402
from processes import BUILD, ROOT  # noqa: E402

TESSERA = BUILD / "bin/bench_collectives"
SIZES = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
ITERATIONS = {"64 KiB": 2000, "1 MiB": 1000, "16 MiB": 100}


def compiled(compiler, name):
    """Builds a peer's program when it is older than its source."""
    source, program = FOLDER / f"{name}.cpp", ROOT / "build/bench-peers" / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-std=c++20", "-O3", "-pthread", source, "-o", program]
        subprocess.run(command, check=True)
    return str(program)


def programs():
    """Name -> (command, environment) of every rank, less the size; a name without: why not."""
    cxx = os.environ.get("CXX", "c++")
    found, missing = {"memcpy": [([compiled(cxx, "peer_memcpy")], {})]}, []

    for comm in ("shm", "gloo"):
        if TESSERA.exists():
            found[f"tessera {comm}"] = [([TESSERA, "--comm", comm, "--json"], {})]
        else:
            missing.append(f"tessera {comm}: {TESSERA} is not built")

    if shutil.which("mpicxx") and shutil.which("mpirun"):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
        found["OpenMPI"] = [([*mpirun, compiled("mpicxx", "peer_openmpi")], {})]
    else:
        missing.append("OpenMPI: mpicxx and mpirun are not installed (libopenmpi-dev)")

    python, _ = processes.peer_python()
    command = [python, str(FOLDER / "peer_gloo.py")]
    found["torch gloo"] = [(command, {"RANK": str(rank)}) for rank in range(2)]
    return found, missing


def measure(ranks, size):
    shared = processes.rendezvous(len(ranks)) if len(ranks) > 1 else {}  # else it starts its own
    extra = ["--bytes", str(SIZES[size]), "--iterations", str(ITERATIONS[size])]
    started = []
    for command, environment in ranks:
        started.append(([*command, *extra], {**shared, **environment}))
    output, _ = processes.run(started, len(started), timeout_s=120)
    return json.loads(output.splitlines()[-1])["median_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()

    found, missing = programs()
    times = {name: {size: [] for size in SIZES} for name in found}
    for number in range(options.rounds):
        for size in SIZES:
            for name in found if number % 2 == 0 else reversed(found):
                try:
                    times[name][size].append(measure(found[name], size))
                except processes.Failed as failure:
                    sys.exit(f"{name}: {failure}")

    print(f"{processes.cpu_model()}; two ranks, {options.rounds} rounds; microseconds, median")
    print(f"{'':14}" + "".join(f"{size:>10}" for size in SIZES))
    for name, by_size in times.items():
        cells = [statistics.median(taken) for taken in by_size.values()]
        print(f"{name:14}" + "".join(f"{cell:10.0f}" for cell in cells))
    for line in missing:
        print(line)
    if options.json:
        record = {"machine": processes.cpu_model(), "microseconds": times, "missing": missing}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
