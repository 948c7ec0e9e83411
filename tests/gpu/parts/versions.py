"""Which GPU, and what it can do at most: our operations and PyTorch's, of the same sizes."""

import sys

from target import ROOT

LIMIT_S = 20


def run(part, target):
    target.check(part, "rates", prefix="ours: ")
    python = target.python_with_torch()
    if not python:
        part.skipped("PyTorch", f"{sys.executable} has no PyTorch")
        return
    words = ["--quick"] if target.quick else []
    words += ["--device", "cpu" if target.emulated else "cuda"]
    target.rows(part, [python, ROOT / "tests/gpu/peer_rates.py", *words], "PyTorch: ", "rates")
