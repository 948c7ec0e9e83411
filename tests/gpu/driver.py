"""Runs the parts one after another, each within its own limit, and keeps what they find.

What a part is about is said in parts/*.py, what comes of it in README.md.
"""

import argparse
import contextlib
import datetime
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]

from gpu_facts import driver_facts  # noqa: E402
from processes import cpu_model  # noqa: E402
from record import BAD, OutOfTime, Part, Record  # noqa: E402
from target import ROOT, Target, end_group  # noqa: E402

SKIPPED = 77  # the exit status that ctest reports as "skipped"
# In this order: what is wrong is worth more than what is slow.
PARTS = ("versions", "kit", "shakespeare", "layouts", "nccl", "bad_input", "pytorch", "sanitizer")


def parse():
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, metavar="DIR",
                        help="what bundle.sh made; without it: this tree and its build folder")
    parser.add_argument("--build", type=Path, metavar="DIR", help="the build folder [build]")
    parser.add_argument("--out", type=Path, default=ROOT / "build/gpu-results", metavar="DIR",
                        help="for results.json and log.txt [build/gpu-results]")
    parser.add_argument("--only", action="append", choices=PARTS, help="again for more; all")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cuda_emulated"),
                        help="cuda_emulated: a rehearsal without a GPU, over the tests' emulator")
    parser.add_argument("--quick", action="store_true", help="sizes cut, for a rehearsal")
    parser.add_argument("--patience", type=int, default=1, metavar="N",
                        help="limits times N: for a build with sanitizers")
    return parser.parse_args()


def unpacked(bundle, scratch):
    """The tree of a bundle; one that is a folder already is used as it is."""
    archive = bundle / "bundle.tar.xz"
    if not archive.exists():
        return bundle.resolve()
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
    with tarfile.open(archive) as file:
        file.extractall(scratch, **safely)
    return Path(scratch, "bundle")


def libstdcxx_of(program):
    """The one that the program gets here; None without one. The loader is asked as ldd does."""
    told = subprocess.run([program], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
                          capture_output=True, text=True).stdout
    found = re.search(r"libstdc\+\+\.so\.6 => (/\S+)", told)
    return Path(found[1]) if found else None


def newest_glibcxx(library):
    """Empty without a library."""
    versions = re.findall(rb"GLIBCXX_[0-9.]+", library.read_bytes()) if library else []
    return max((one.decode() for one in versions), key=numbers, default="")


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def too_old(root):
    """Why this machine cannot run what a bundle has; empty: it can, or there is no bundle."""
    if not (root / "bundle.json").exists():
        return ""
    wanted, program = json.loads((root / "bundle.json").read_text()), root / "build/tests/gpu_check"
    for name, here in (("glibc", platform.libc_ver()[1]),
                       ("libstdc++", newest_glibcxx(libstdcxx_of(program)))):
        if not here or numbers(here) < numbers(wanted[name]):
            return (f"the bundle wants {name} {wanted[name]} or later, this machine has "
                    f"{here or 'none'}")
    return ""


def has_gpu(target):
    """As the system tells it: where there is one, a device that cannot be made is a failure."""
    if target.emulated:
        return os.environ.get("TESSERA_EMULATED_GPUS") != "0"
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def commit_of(part, target):
    """As the program tells it: of what runs, not of the tree around."""
    words = target.run(part, [target.program, "--version"]).out.split("commit ", 1)
    return words[1].split()[0] if len(words) > 1 else "unknown"


@contextlib.contextmanager
def torch_read_from_disk(part, target):
    """PyTorch is imported once while the first parts run: from a disk that has not been read yet
    that takes longer than a part may."""
    python = target.python_with_torch()
    process = target.start(part, [python, "-c", "import torch"]) if python else None
    try:
        yield
    finally:
        if process:
            end_group(process)


def run_part(record, target, name, patience):
    module = importlib.import_module(f"parts.{name}")
    limit = module.LIMIT_S * patience
    part = Part(record, name, limit)
    record.say(f"== {name}: at most {limit} s")
    try:
        module.run(part, target)
        part.end()
    except OutOfTime:
        part.end("timed out", f"stopped after {limit} s; rows after the last are missing")
    except Exception as error:  # whatever it is, the next part runs
        part.end("failed", f"{type(error).__name__}: {error}")


def run(options, scratch):
    root = unpacked(options.bundle, scratch) if options.bundle else ROOT
    build = options.build.resolve() if options.build else root / "build"
    target = Target(root, build, options.device, options.quick, scratch)
    missing = ", ".join(map(str, target.missing()))
    if problem := f"{missing}: not built, or not in the bundle" if missing else too_old(root):
        print(f"tests/gpu: {problem}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    record = Record(options.out.resolve(), {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device_type": options.device, "quick": options.quick, "cpu": cpu_model()})
    start = Part(record, "start", 20 * options.patience)
    record.about(commit=commit_of(start, target), libraries=target.libraries)
    found = target.check(start, "versions")
    start.end()
    if found.code:
        there = has_gpu(target) and "cuBLASLt is not found" not in found.err
        print(f"tests/gpu: {'failed, with a GPU here' if there else 'skipped'}: "
              f"{found.err.strip()}", file=sys.stderr)
        return 1 if there else SKIPPED
    unit = start.table["rows"][0]["unit_id"]
    record.about(unit_id=unit, **driver_facts(unit))
    with torch_read_from_disk(start, target):
        for name in PARTS:
            if not options.only or name in options.only:
                run_part(record, target, name, options.patience)
    record.say(f"== {time.monotonic() - begin:.0f} s; worst first")
    for line in record.summary():
        record.say(line)
    record.say(f"results: {record.path}")
    return 1 if set(record.states().values()) & set(BAD) else 0


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="tessera-gpu-") as scratch:
        sys.exit(run(options, scratch))


if __name__ == "__main__":
    main()
