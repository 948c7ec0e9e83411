#!/usr/bin/env python3
"""Documents to token files against Megatron-LM's preprocess_data.py, near duplicates against
datasketch, alternating; medians of the rounds' ratios.

    tests/bench/data.py --megatron DIR --vocab FILE --merges FILE
    tests/bench/data.py --only minhash

DIR is a checkout of Megatron-LM, tag v2.6, the last whose script needs no more than PyTorch and
three small packages; FILEs are GPT-2's vocabulary and merges. Documents are 2 KB pieces of this
Python's own sources. The first part has --threads threads or workers, the second one; memory is the
largest sum over a side's processes (PSS).
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import processes
from processes import PROGRAM, ROOT

PIECE = 2048  # characters of a document

# The peer's side of near duplicates: candidates by bands, verified by the sets.
DATASKETCH = """
import json, sys, time
from datasketch import MinHash, MinHashLSH
begin = time.perf_counter()
lsh = MinHashLSH(num_perm=128, params=(32, 4))
sets, removed = [], 0
for number, line in enumerate(open(sys.argv[1])):
    text = json.loads(line)["text"]
    shingles = {text[i:i + 5] for i in range(len(text) - 4)} or {text}
    sketch = MinHash(num_perm=128)
    sketch.update_batch([shingle.encode() for shingle in shingles])
    for other in lsh.query(sketch):
        both = len(shingles & sets[other])
        if both / (len(shingles) + len(sets[other]) - both) > 0.7:
            removed += 1
            break
    lsh.insert(number, sketch)
    sets.append(shingles)
print(json.dumps({"removed": removed, "seconds": time.perf_counter() - begin}))
"""

# The peer's script with a numpy of today, which has lost a name.
PREPROCESS = """
import runpy, sys
import numpy
numpy.float = float
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rsplit("/", 1)[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def documents(megabytes):
    """Texts of sources in an order that does not change, cut into pieces."""
    left = megabytes * 1_000_000
    for file in itertools.cycle(sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))):
        text = file.read_text(errors="replace")
        for at in range(0, len(text), PIECE):
            if left <= 0:
                return
            left -= len(text[at:at + PIECE].encode())
            yield text[at:at + PIECE]


def write_lines(file, texts):
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


class Memory(threading.Thread):
    """The largest memory that a process and those below it had together, in MiB."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.largest, self.ends = pid, 0, False

    def below(self, pid):
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []
        return [pid] + [one for child in children for one in self.below(int(child))]

    def run(self):
        while not self.ends:
            total = 0
            for pid in self.below(self.pid):
                try:
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                total += int(rollup.split("\nPss:")[1].split()[0])
            self.largest = max(self.largest, total / 1024)
            time.sleep(0.05)


def timed(command, **options):
    begin = time.perf_counter()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options) as process:
        memory = Memory(process.pid)
        memory.start()
        output, errors = process.communicate()
    memory.ends = True
    if process.returncode:
        raise SystemExit(f"{command[0]} failed:\n{errors}")
    return {"seconds": time.perf_counter() - begin, "memory": memory.largest, "output": output}


def tessera(folder, lines, threads, tokenizer, stages):
    file = folder / "build.toml"
    file.write_text(f'schema = 1\ninput = ["{lines}"]\noutput = "ours"\nthreads = {threads}\n'
                    f"tokenizer = {tokenizer}\nstages = {stages}\n")
    return timed([PROGRAM, "data", "build", file, "--force"])


def megatron(options, folder, lines):
    return timed([options.python, "-c", PREPROCESS, options.megatron / "tools/preprocess_data.py",
                  "--input", lines,
                  "--output-prefix", folder / "theirs", "--dataset-impl", "mmap",
                  "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", options.vocab,
                  "--merge-file", options.merges, "--append-eod", "--workers", options.threads])


def datasketch_python():
    venv = ROOT / "build/datasketch-venv"
    if not (venv / "ready").exists():
        subprocess.run(["python3", "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", "datasketch"],
                       check=True)
        (venv / "ready").touch()
    return venv / "bin/python"


def rounds(options, name, ours, theirs, same):
    ratios, memories = [], []
    for number in range(options.rounds):
        sides = [("ours", ours), ("theirs", theirs)][:: -1 if number % 2 else 1]
        taken = {side: run() for side, run in sides}
        same(taken)
        a, b = taken["ours"], taken["theirs"]
        ratios.append(b["seconds"] / a["seconds"])
        memories.append(a["memory"] / b["memory"])
        print(f"{name}: {a['seconds']:.2f} s, {a['memory']:.0f} MiB; peer {b['seconds']:.2f} s, "
              f"{b['memory']:.0f} MiB: {ratios[-1]:.1f} x, {memories[-1]:.2f} x memory", flush=True)
    print(f"{name}: median {statistics.median(ratios):.1f} x as fast, "
          f"{statistics.median(memories):.2f} x memory")


def bench_tokens(options, folder):
    options.python, _ = processes.peer_python()
    subprocess.run([options.python, "-m", "pip", "install", "--quiet", "six", "regex", "nltk"],
                   check=True)
    lines = folder / "lines.jsonl"
    write_lines(lines, documents(options.megabytes))
    (folder / "gpt2").mkdir()
    (folder / "gpt2/vocab.json").symlink_to(options.vocab.resolve())
    (folder / "gpt2/merges.txt").symlink_to(options.merges.resolve())

    def same(_):
        for end in ("bin", "idx"):
            ours, theirs = folder / f"ours.{end}", folder / f"theirs_text_document.{end}"
            if ours.read_bytes() != theirs.read_bytes():
                raise SystemExit(f"the files differ: .{end}")

    rounds(options, f"{options.megabytes} MB to tokens",
           lambda: tessera(folder, lines, options.threads,
                           '{type = "gpt2", path = "gpt2"}', "[]"),
           lambda: megatron(options, folder, lines), same)


def bench_minhash(options, folder):
    texts = list(dict.fromkeys(documents(options.minhash_megabytes)))
    chance = random.Random(1)
    for _ in range(len(texts) // 10):  # copies with a changed part
        text = chance.choice(texts)
        texts.append(text[:200] + "changed" + text[240:])
    lines = folder / "minhash.jsonl"
    write_lines(lines, texts)
    python = datasketch_python()

    def same(taken):
        ours = sum(1 for _ in open(folder / "ours.removed.jsonl"))
        theirs = json.loads(taken["theirs"]["output"])["removed"]
        print(f"  removed: {ours} and {theirs} of {len(texts)}")
        if abs(ours - theirs) > 0.01 * theirs:  # groups remove more than the first twin does
            raise SystemExit("the documents that go differ")

    def stage():  # what the stage adds to a build, as the peer writes no tokens
        without = tessera(folder, lines, 1, '{type = "byte"}', "[]")
        whole = tessera(folder, lines, 1, '{type = "byte"}', '[{type = "near_duplicates"}]')
        print(f"  the whole build: {whole['seconds']:.2f} s, without: {without['seconds']:.2f} s")
        whole["seconds"] -= without["seconds"]
        return whole

    rounds(options, f"{len(texts)} documents compared", stage,
           lambda: timed([python, "-c", DATASKETCH, lines]), same)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megatron", type=Path, help="a checkout of Megatron-LM, tag v2.6")
    parser.add_argument("--vocab", type=Path, help="GPT-2's vocabulary, JSON")
    parser.add_argument("--merges", type=Path, help="GPT-2's merges")
    parser.add_argument("--only", choices=("tokens", "minhash"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--minhash-megabytes", type=int, default=4)
    options = parser.parse_args()
    if options.only != "minhash" and not (options.megatron and options.vocab and options.merges):
        parser.error("--megatron, --vocab and --merges are needed, or --only minhash")
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as name:
        if options.only != "minhash":
            bench_tokens(options, Path(name))
        if options.only != "tokens":
            bench_minhash(options, Path(name))


if __name__ == "__main__":
    main()
