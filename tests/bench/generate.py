#!/usr/bin/env python3
"""Text of SmolLM2, greedy, against transformers with its cache, alternating.

    tests/bench/generate.py                      # makes the model the first time: real_llama.py

Seconds of a token: those of a long generation without those of a short one, so that starting and
prompts do not count. One prompt, then eight unequal ones together. Beside tokens a second it prints
which share of the bandwidth of a copy the weights take that each token reads.
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
from processes import PROGRAM, ROOT

PROMPTS = ("The capital of France is", "Once upon a time there was", "Water boils",
           "The three primary colours are", "A short poem about the sea:", "def fibonacci(n):",
           "The best way to learn a language is to", "Dear Sir or Madam,")
BATCHES = (1, 8)
SIDES = ("tessera", "transformers")


def model_in(folder):
    """The model for both sides: as transformers has it, and as a checkpoint."""
    theirs, ours = folder / "smollm2", folder / "ours"
    python = subprocess.run([ROOT / "tests/oracle/venv.sh"], check=True, stdout=subprocess.PIPE,
                            text=True).stdout.strip()
    if not theirs.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, ROOT / "tests/oracle/real_llama.py", theirs], check=True)
    if not ours.exists():
        subprocess.run([PROGRAM, "convert", "--from", theirs, "--to", ours], check=True,
                       stdout=subprocess.DEVNULL)
    return theirs, ours


def tessera(options, ours, prompts, batch):
    def seconds(tokens):
        command = [PROGRAM, "generate", "--checkpoint", ours, "--prompts", prompts]
        command += ["--batch", str(batch), "--tokens", str(tokens), "--temperature", "0"]
        command += ["--ignore-eos", "--json", "--set", f"device.threads={options.threads}"]
        command += [word for pair in options.set for word in ("--set", pair)]
        begin = time.perf_counter()
        (output, _), used = processes.with_processor_seconds(processes.run, [(command, {})], 1)
        taken = used if options.processor else time.perf_counter() - begin
        return taken, [json.loads(line)["tokens"] for line in output.splitlines()]

    short, _ = seconds(options.short)
    long, tokens = seconds(options.short + options.tokens)
    return {"seconds": (long - short) / options.tokens, "tokens": tokens}


def transformers(options, theirs, prompts, _):
    python, tuned = processes.peer_python()
    command = [python, ROOT / "tests/bench/peers/generate.py", "--model", theirs]
    command += ["--prompts", prompts, "--threads", str(options.threads)]
    command += ["--processor"] * options.processor
    command += ["--short", str(options.short), "--long", str(options.short + options.tokens)]
    output, _ = processes.run([(command, tuned)], 1)
    taken = json.loads(output.splitlines()[-1])
    return {"seconds": (taken["long"] - taken["short"]) / options.tokens,
            "tokens": taken["tokens"], "bandwidth": taken["bandwidth"]}


def measure_round(options, folders, batch, backwards):
    taken = {}
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder, "prompts.txt")
        prompts.write_text("".join(f"{prompt}\n" for prompt in PROMPTS[:batch]))
        for side in SIDES[:: -1 if backwards else 1]:
            run = tessera if side == "tessera" else transformers
            taken[side] = run(options, folders[side], prompts, batch)
            print(f"batch {batch} {side:13}{batch / taken[side]['seconds']:8.1f} tokens/s",
                  file=sys.stderr)
    tokens = [taken[side].pop("tokens") for side in SIDES]
    taken["equal"] = sum(a == b for a, b in zip(*tokens))
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="timed tokens of each text")
    parser.add_argument("--short", type=int, default=8, help="tokens before them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor", action="store_true",
                        help="seconds of all threads, on a machine that is busy; with --threads 1")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/bench-data/smollm2")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    theirs, ours = model_in(options.folder)
    folders = {"tessera": ours, "transformers": theirs}
    rounds = processes.in_rounds(
        options.rounds, BATCHES, functools.partial(measure_round, options, folders))
    weights = (theirs / "model.safetensors").stat().st_size
    speeds = {}
    print(f"{processes.cpu_model()}; {options.threads} threads; {options.rounds} rounds of "
          f"{options.tokens} tokens, FP32" + ", processor time" * options.processor)
    print("| batch | Tessera tokens/s | transformers tokens/s | ratio | weights / copy bandwidth | "
          "equal texts |")
    print("|---|---|---|---|---|---|")
    for batch, taken in rounds.items():
        speeds[batch], peer = (
            statistics.median(batch / of[side]["seconds"] for of in taken) for side in SIDES)
        ratio = statistics.median(
            of["transformers"]["seconds"] / of["tessera"]["seconds"] for of in taken)
        share = statistics.median(
            weights / of["tessera"]["seconds"] / of["transformers"]["bandwidth"] for of in taken)
        equal = min(of["equal"] for of in taken)
        print(f"| {batch} | {speeds[batch]:.1f} | {peer:.1f} | {ratio:.2f} | {share:.0%} | "
              f"{equal} of {batch} |")
    bandwidth = statistics.median(
        of["transformers"]["bandwidth"] for taken in rounds.values() for of in taken)
    print(f"a copy moves {bandwidth / 1e9:.1f} GB/s; batch 8 is {speeds[8] / speeds[1]:.2f} times "
          "batch 1")
    processes.save(options.json, {"rounds": rounds})


if __name__ == "__main__":
    main()
