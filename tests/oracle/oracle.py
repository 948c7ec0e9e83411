#!/usr/bin/env python3
"""Compares Tessera with PyTorch: starts train_gpt.py, or the script that is named.

Without the environment that tests/oracle/venv.sh makes it exits with 77, "skipped" to ctest.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = ROOT / "build/bench-venv"
SKIPPED = 77


def main():
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bin/tessera"
    if not program.exists():
        sys.exit(f"{program} is not built")
    if not list(VENV.glob("ready-oracle-*")):
        print(f"skipped: no PyTorch in {VENV}; tests/oracle/venv.sh makes it (downloads 0.7 GB)")
        sys.exit(SKIPPED)
    python = VENV / "bin/python"
    # Without kept bytecode the imports of these packages take twice as long.
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(VENV / "pycache"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    script = sys.argv[2] if len(sys.argv) > 2 else "train_gpt.py"
    os.execve(python, [python, HERE / script, program.resolve()], environment)


if __name__ == "__main__":
    main()
