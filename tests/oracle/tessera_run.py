"""Trains with the built program and reads what it wrote: metrics.jsonl and checkpoints."""

import json
import subprocess

import numpy
from safetensors.numpy import load_file

from record import Record

TIMEOUT_S = 120


class Failed(Exception):
    pass


def train(program, files, settings, out):
    """Runs `tessera train` over configuration files; `settings` are its --set."""
    command = [str(program), "train", *map(str, files)]
    for key, value in {**settings, "run.out": out}.items():
        command += ["--set", f"{key}={value}"]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    if result.returncode != 0:
        raise Failed(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}")


def read_checkpoint(folder):
    """(step, tensors by name), put together from the slices that index.json lists."""
    index = json.loads((folder / "index.json").read_text())
    files = {file["name"]: load_file(folder / file["name"]) for file in index["files"]}
    tensors = {}
    for name, stored in index["tensors"].items():
        whole = numpy.full(stored["shape"], numpy.nan)
        for piece in stored["slices"]:
            part = files[piece["file"]].pop(piece["key"])
            if part.dtype != {"fp32": numpy.float32, "fp64": numpy.float64}[stored["dtype"]]:
                raise Failed(f"{folder}: {name} is {part.dtype}, index.json says {stored['dtype']}")
            ends = zip(piece["begin"], piece["shape"], strict=True)
            whole[tuple(slice(begin, begin + size) for begin, size in ends)] = part
        if numpy.isnan(whole).any():
            raise Failed(f"{folder}: the slices of {name} leave holes, or it is not finite")
        tensors[name] = whole
    left = [key for file in files.values() for key in file]
    if left:
        raise Failed(f"{folder}: index.json does not list {left}")
    return index["step"], tensors


def read(out, steps):
    """The record of a run, with the tensors of these steps."""
    record = Record()
    for line in (out / "metrics.jsonl").read_text().splitlines():
        step = json.loads(line)
        record.losses.append(step["loss"])
        record.norms.append(step["grad_norm"])
        record.rates.append(step["lr"])
        if "val_loss" in step:
            record.validations[step["step"]] = step["val_loss"]
    for number in steps:
        step, record.tensors[number] = read_checkpoint(out / f"checkpoints/step-{number}")
        if step != number:
            raise Failed(f"checkpoint of step {number} says that it is of step {step}")
    return record
