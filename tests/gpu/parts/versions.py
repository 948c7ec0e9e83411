"""Which GPU, and what it can do at most: our operations and PyTorch's, of the same sizes."""

import subprocess
import sys

from target import ROOT

LIMIT_S = 20


def driver_facts():
    """What nvidia-smi tells; nothing where it is absent."""
    fields = ("name", "driver_version", "memory.total")
    try:
        told = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}
    return dict(zip(("gpu", "driver", "gpu_memory"), map(str.strip, told.split(","))))


def run(part, target):
    part.record.about(**driver_facts(), cublas=target.cublas)
    python = target.python_with_torch()
    # From a disk that has not been read yet the import takes longer than this part may.
    first = target.start(part, [python, "-c", "import torch"]) if python else None
    target.check(part, "rates", prefix="ours: ")
    if not python:
        part.skipped("PyTorch", f"{sys.executable} has no PyTorch")
        return
    first.communicate()
    words = ["--quick"] if target.quick else []
    words += ["--device", "cpu" if target.emulated else "cuda"]
    target.rows(part, [python, ROOT / "tests/gpu/peer_rates.py", *words], "PyTorch: ", "rates")
