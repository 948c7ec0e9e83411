"""all-MiniLM-L6-v2, a BERT of 6 layers × 384, for both sides; made the first time."""

import subprocess

from processes import PROGRAM, ROOT, peer_python

FOLDER = ROOT / "build/bench-data/minilm"


def theirs():
    """As transformers has it."""
    folder = FOLDER / "theirs"
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        python, _ = peer_python()
        subprocess.run([python, ROOT / "examples/corpus/minilm.py", folder], check=True)
    return folder


def ours():
    """As a checkpoint."""
    folder = FOLDER / "ours"
    if not folder.exists():
        subprocess.run([PROGRAM, "convert", "--from", theirs(), "--to", folder], check=True,
                       stdout=subprocess.DEVNULL)
    return folder
