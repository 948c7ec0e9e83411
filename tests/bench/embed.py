#!/usr/bin/env python3
"""Embeddings of 1,000 sentences by MiniLM, against transformers in batches of 32, alternating.

    tests/bench/embed.py                         # makes the model the first time

Sentences are pieces of this Python's sources, 2 to 60 words long. transformers gets them in the
order of their lengths, so that its batches have hardly any padding, and its time is that of tokens,
model and means, after a first batch. Of `tessera eval embed` it is that of a whole process, without
that of one which has a single sentence. Both sides must agree to 1e-4.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import minilm
import processes
from corpus.measuring import documents
from processes import PROGRAM, ROOT

LIMIT = 1e-4
GOAL = 1.5


def sentences(count):
    draws = random.Random(11)
    found = []
    for text in documents(10):
        words = text.split()
        while words and len(found) < count:
            length = draws.randint(2, 60)
            found.append(" ".join(words[:length]))
            words = words[length:]
    return found[:count]


def peer(options, folder, data):
    python, tuned = processes.peer_python(transformers=True)
    command = [python, ROOT / "tests/bench/peers/embed.py", minilm.theirs(), data,
               folder / "theirs.jsonl", str(options.threads)]
    output, peaks = processes.run([(command, tuned)], 1)
    taken = json.loads(output.splitlines()[-1])
    seconds = taken["processor" if options.processor else "seconds"]
    return seconds, peaks[0], taken["imported_mib"]


def tessera(options, folder, data, out):
    command = [PROGRAM, "eval", "embed", "--checkpoint", minilm.ours(), "--data", data,
               "--set", f"device.threads={options.threads}"]
    begin = time.perf_counter()
    (output, peaks), used = processes.with_processor_seconds(processes.run, [(command, {})], 1)
    (folder / out).write_text(output)
    return used if options.processor else time.perf_counter() - begin, peaks[0]


def rows(file):
    return [json.loads(line)["embedding"] for line in file.read_text().splitlines()]


def check(folder, count):
    ours, theirs = rows(folder / "ours.jsonl"), rows(folder / "theirs.jsonl")
    if not len(ours) == len(theirs) == count:
        sys.exit(f"{len(ours)} and {len(theirs)} embeddings of {count} sentences")
    apart = max(abs(a - b) for one, other in zip(ours, theirs)
                for a, b in zip(one, other, strict=True))
    if apart > LIMIT:
        sys.exit(f"embeddings are {apart:.2g} apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--processor", action="store_true", help="compare processor time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, one = folder / "sentences.jsonl", folder / "one.jsonl"
        lines = [json.dumps({"text": text}) + "\n" for text in sentences(options.sentences)]
        data.write_text("".join(lines))
        one.write_text(lines[0])
        ratios, memories = [], []
        for number in range(options.rounds):
            taken = {}
            for side in ("peer", "tessera")[:: -1 if number % 2 else 1]:
                if side == "peer":
                    taken[side], peak, imported = peer(options, folder, data)
                else:
                    started, _ = tessera(options, folder, one, "one")
                    seconds, ours = tessera(options, folder, data, "ours.jsonl")
                    taken[side] = seconds - started
            check(folder, options.sentences)
            ratios.append(taken["peer"] / taken["tessera"])
            memories.append(ours / peak)
            print(f"{taken['tessera']:.2f} s and {started:.2f} s to start, {ours:.0f} MiB; "
                  f"transformers {taken['peer']:.2f} s, {peak:.0f} MiB, {imported:.0f} of them "
                  f"imported: {ratios[-1]:.2f} x", flush=True)
    print(f"{processes.cpu_model()}: {statistics.median(ratios):.2f} x as fast (goal {GOAL}), "
          f"{statistics.median(memories):.2f} x memory")


if __name__ == "__main__":
    main()
