"""Measuring the two sides alike: groups of processes, what they print and take, in rounds."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TESSERA_BENCH_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "bin/tessera"
POLL_S = 0.2


class Failed(Exception):
    pass


def cpu_model():
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name, family = fields.get("model name", "unknown"), fields.get("cpu family", "?")
    return f"{name} (family {family}, model {fields.get('model', '?')}), {os.cpu_count()} cores"


def in_rounds(count, cases, measure):
    """measure(case, backwards) of every case in turn, `count` times, every other time backwards.

    Returns a list for each case. Ends the program where a process fails.
    """
    rounds = {case: [] for case in cases}
    try:
        for number in range(count):
            for case, taken in rounds.items():
                taken.append(measure(case, number % 2 == 1))
    except Failed as failure:
        sys.exit(f"failed: {failure}")
    return rounds


def save(path, record):
    """What was measured, and on which machine; nothing without a path."""
    if path:
        path.write_text(json.dumps({"machine": cpu_model(), **record}, indent=2) + "\n")


def with_processor_seconds(function, *arguments):
    """Its result, and what the processes that it ran took of all processors."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])  # user and system
    before = used()
    result = function(*arguments)
    return result, used() - before


def peer_python(tuned_mkl=True, megatron=False, transformers=False):
    """The interpreter of the peers and the environment it wants (see peers/mkl_intel_cpu.c)."""
    scripts = ["bench/venv.sh", *["bench/megatron.sh"] * megatron,
               *["oracle/venv.sh"] * transformers]
    for script in scripts:  # each prints the same
        python = subprocess.run([ROOT / "tests" / script], check=True, stdout=subprocess.PIPE,
                                text=True).stdout.strip()
    environment = {}
    if tuned_mkl:
        environment["LD_PRELOAD"] = str(Path(python).parents[1] / "lib/mkl_intel_cpu.so")
    return python, environment


def rendezvous(ranks):
    """What torch.distributed reads, less the rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def family(pid):
    """A process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def watch_peaks(pids, peaks):
    """Notes VmHWM, which only grows, of every process that is still alive."""
    for top in pids:
        try:
            for pid in family(top):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        peaks[pid] = int(line.split()[1]) / 1024
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended


def run(commands, ranks, timeout_s=900):
    """Runs (command, environment) pairs together until all end.

    Returns the first one's output and the peaks in MiB of the `ranks` largest processes: a
    launcher that only waits is none of them.
    """
    peaks, deadline = {}, time.monotonic() + timeout_s
    with tempfile.TemporaryFile("w+") as first_output, tempfile.TemporaryFile("w+") as errors:
        processes = [
            subprocess.Popen(
                command,
                env={**os.environ, **environment},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=errors if index else first_output,
                stderr=errors,
            )
            for index, (command, environment) in enumerate(commands)
        ]
        try:
            while any(process.poll() is None for process in processes):
                watch_peaks([process.pid for process in processes], peaks)
                broken = any(process.returncode for process in processes)
                if broken or time.monotonic() > deadline:
                    break
                time.sleep(POLL_S)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                process.wait()
        first_output.seek(0)
        errors.seek(0)
        output = first_output.read()
        if any(process.returncode for process in processes):
            command = " ".join(map(str, commands[0][0]))
            raise Failed(f"{command}\n{(output + errors.read())[-3000:]}")
    return output, sorted(peaks.values(), reverse=True)[:ranks]
