"""Training steps against PyTorch: eager, scaled_dot_product_attention, fused AdamW, autocast in
bf16. Fresh processes, one side after the other, in rounds that swap which is first."""

import json
import math
import re
import statistics
import sys
import tomllib
from dataclasses import dataclass

import tessera_steps
from gpu_facts import PeakOf, nvml
from target import ROOT, told

LIMIT_S = 180
CONFIG = "tests/bench/train_step.toml"
PEER = ROOT / "tests/bench/peers/gpt.py"
SLOWER_FORMS = {"PCIE", "NVL", "MIG"}
GPU_MEMORY = "78GiB"  # of an H100, for plans made elsewhere


@dataclass
class Case:
    name: str
    rounds: int
    bf16: bool
    goal: float  # of our tokens/s over PyTorch's
    shape: dict  # of the peer: layers, hidden, heads, sequence, batch, vocabulary
    warmup: int = 5
    steps: int = 15

    def settings(self):
        shape = self.shape
        return {"model.layers": shape["layers"], "model.hidden": shape["hidden"],
                "model.heads": shape["heads"], "model.vocab": shape["vocabulary"],
                "batch.sequence_length": shape["sequence"], "batch.global": shape["batch"],
                "batch.micro": shape["batch"], "model.dropout": 0.0,
                "precision.compute": "bf16" if self.bf16 else "fp32"}

    def tokens(self):
        return self.shape["batch"] * self.shape["sequence"]


# A vocabulary that PyTorch's products like: 393 times 128.
GPT2 = {"layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "batch": 16,
        "vocabulary": 50304}
LARGE = {**GPT2, "layers": 40, "hidden": 1536, "heads": 16, "batch": 8}
# Of a rehearsal: with 24 steps the loss falls by 0.3, ten times its noise.
SMALL = {"layers": 1, "hidden": 64, "heads": 2, "sequence": 16, "batch": 8, "vocabulary": 256}
CASES = [Case("1.2B bf16", 2, True, 1.0, LARGE, warmup=3, steps=8),
         Case("GPT-2 124M bf16", 3, True, 1.0, GPT2),
         Case("GPT-2 124M fp32", 2, False, 0.9, {**GPT2, "batch": 8}, steps=8)]


@dataclass
class Sample:
    tokens_per_second: float
    peak_bytes: int | None
    more: dict


def peaks_of(gpu, root):
    """Peak rates of the table of configs/hardware whose name has this GPU's; {} where none has, and
    for forms of it that are slower than those of the tables, on SXM boards."""
    words = set(re.findall(r"\w+", gpu))
    if SLOWER_FORMS & {word.upper() for word in words}:
        return {}
    for path in sorted((root / "configs/hardware").glob("*.toml")):
        table = tomllib.loads(path.read_text())
        if any(word in words and re.search(r"\d", word) for word in table["name"].split()):
            return table["peak"]
    return {}


def plan(part, target, case):
    """What `tessera plan` says: it must fit; and the FLOPs of a step, of both sides."""
    command = [target.program, "plan", CONFIG, "--json", "--memory", GPU_MEMORY,
               *target.settings({"run.steps": 1, "data.path": tessera_steps.training_data(),
                                 **case.settings()})]
    ended = target.run(part, command)
    fits = ended.code == 0
    held = json.loads(ended.out)["ranks"][0]["peak_memory"]["held"] if fits else 0
    part.check(f"{case.name} fits {GPU_MEMORY}", "" if fits else ended.why(),
               planned_gib=round(held / 2**30, 1))
    return json.loads(ended.out)["model_flops"] if fits else None


def ours(part, target, case, watch):
    settings = {"run.steps": case.warmup + case.steps, "run.log_every_steps": 1,
                "observers.console.type": "console",
                "data.path": tessera_steps.training_data(), **case.settings()}
    command = target.training_command([CONFIG], "step", settings)
    with PeakOf(watch) as peak:
        training = told(target.run(part, command))
    if training.ended.code:
        raise RuntimeError(training.ended.why())
    check_losses(case, "ours", training.losses())
    calls = {event["step"]: event["system_calls"] for event in training.memory}
    seconds = statistics.median(step["seconds"] for step in training.steps[case.warmup:])
    more = {"own_peak_bytes": training.memory[-1]["peak_bytes"],
            "reserved_bytes": training.memory[-1]["reserved_bytes"],
            "calls_after_step_2": max(calls.values()) - calls.get(2, max(calls.values()))}
    return Sample(case.tokens() / seconds, peak.bytes, more)


def theirs(part, target, case, watch, python):
    command = [python, PEER, "--data", tessera_steps.training_data(),
               "--device", "cpu" if target.emulated else "cuda",
               "--warmup", case.warmup, "--steps", case.steps]
    command += ["--autocast"] if case.bf16 else []
    command += [word for key, value in case.shape.items() for word in (f"--{key}", value)]
    with PeakOf(watch) as peak:
        ended = target.run(part, command)
    if ended.code:
        raise RuntimeError(f"PyTorch: {ended.why()}")
    told_by_peer = json.loads(ended.out.splitlines()[-1])
    check_losses(case, "PyTorch", told_by_peer["losses"])
    more = {"own_peak_bytes": told_by_peer.get("gpu_peak_bytes"),
            "reserved_bytes": told_by_peer.get("gpu_reserved_bytes")}
    return Sample(told_by_peer["tokens_per_second"], peak.bytes, more)


def check_losses(case, side, losses):
    """Both must really train: a guess over the vocabulary at first, less surprised at the end."""
    first, last = losses[0], losses[-1]
    if not (abs(first - math.log(case.shape["vocabulary"])) < 0.6 and last < first):
        raise RuntimeError(f"{side}: losses {losses} are not those of training")


def summarise(part, target, case, samples, flops):
    """Ratios are paired inside a round: what slows the machine hits both sides."""
    pairs = list(zip(samples["ours"], samples["PyTorch"]))
    peaks = peaks_of(part.record.content["about"].get("gpu", ""), target.root)
    peak = peaks.get("bf16" if case.bf16 else "fp32")
    for side, taken in samples.items():
        if not taken:
            continue
        speed = statistics.median(one.tokens_per_second for one in taken)
        mfu = {"mfu": speed / case.tokens() * flops / peak} if peak else {}
        part.measured(f"{case.name}: {side}", speed, "tokens/s", rounds=len(taken),
                      gpu_peak_bytes=taken[-1].peak_bytes, **taken[-1].more, **mfu)
    if not pairs:
        return
    goal = None if target.quick else case.goal  # of a rehearsal nothing is wanted
    ratio = statistics.median(a.tokens_per_second / b.tokens_per_second for a, b in pairs)
    part.measured(f"{case.name}: speed over PyTorch's", ratio, "ratio", goal=goal)
    if pairs[-1][0].peak_bytes and pairs[-1][1].peak_bytes:
        part.measured(f"{case.name}: memory over PyTorch's",
                      pairs[-1][0].peak_bytes / pairs[-1][1].peak_bytes, "ratio",
                      goal=None if target.quick else 1.0, most=True)
    elif not target.emulated:
        part.skipped(f"{case.name}: memory over PyTorch's", "NVML tells nothing")


def run(part, target):
    flops = {case.name: plan(part, target, case) for case in CASES}
    cases = CASES
    if target.quick:
        cases = [Case("tiny fp32", 1, False, 0, SMALL, 1, 24)]
        flops = {"tiny fp32": plan(part, target, cases[0])}
    python = target.python_with_torch()
    watch = None if target.emulated else nvml(part.record.content["about"]["unit_id"])
    if not python:
        part.skipped("PyTorch", f"{sys.executable} has no PyTorch")
    sides = {"ours": ours} if not python else {
        "ours": ours, "PyTorch": lambda *words: theirs(*words, python)}
    samples = {case.name: {side: [] for side in ("ours", "PyTorch")} for case in cases}
    try:
        for number in range(max(case.rounds for case in cases)):
            for case in (one for one in cases if one.rounds > number):
                for side in list(sides)[::-1 if number % 2 else 1]:
                    measure(part, target, case, side, sides[side], watch, samples)
    finally:  # also of rounds that the limit left
        for case in cases:
            summarise(part, target, case, samples[case.name], flops[case.name] or 0)


def measure(part, target, case, side, take, watch, samples):
    try:
        sample = take(part, target, case, watch)
    except RuntimeError as error:
        part.check(f"{case.name}: {side}", str(error))
        return
    samples[case.name][side].append(sample)
    number = len(samples[case.name][side])
    part.measured(f"{case.name}: {side}, round {number}", sample.tokens_per_second, "tokens/s")
    if side == "ours" and number == 1:
        calls = sample.more["calls_after_step_2"]
        part.check(f"{case.name}: no system call for memory after step 2",
                   f"{calls} calls" if calls else "")
