"""Trains a model with Tessera and with PyTorch and compares what both say; see README.md."""

import argparse
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import torch

import tessera_run
from record import distances

HERE = Path(__file__).parent
KEEP = (1, 10)  # steps whose tensors are compared

# Most for each quantity (record.py says in which units). The single ones are a few times what
# PyTorch's own single precision is from its double, which is printed beside.
DOUBLE = {"initial": 1e-14, "loss": 1e-12, "validation": 1e-12, "norm": 1e-12, "rate": 1e-12,
          "parameter": 1e-9, "moment": 1e-10}
SINGLE = {"initial": 1e-7, "loss": 1e-6, "validation": 1e-6, "norm": 5e-6, "rate": 1e-12,
          "parameter": 1e-2, "moment": 1e-4}
PEERS = {"double": torch.float64, "single": torch.float32}


@dataclass
class Case:
    title: str
    settings: dict
    limits: dict = field(default_factory=lambda: SINGLE)
    peers: tuple = ("double", "single")


@dataclass
class Trial:
    """Configuration files, later ones over earlier ones, and who trains the same in PyTorch."""

    files: list
    peer: type
    cases: list
    mistakes: list
    noticed_in: str  # the title of the case that mistakes are compared with
    # Makes the files of the training in a folder; returns what `peer` takes of them.
    write: object = None
    keys: dict = field(default_factory=lambda: {"data.path": ""})  # where they lie in it
    check: object = None  # that a training exercises what it claims to; as check_training

    def config(self):
        merged = {}
        for file in self.files:
            merge(merged, tomllib.loads(file.read_text()))
        return merged


def merge(below, above):
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            merge(below[key], value)
        else:
            below[key] = value


# One update that is too small to change anything: its checkpoint holds the initial values.
FROZEN = {"run.steps": 1, "lr.peak": 1e-30, "lr.min": 0, "lr.warmup_steps": 0}


def write_text(folder, size=900):
    """Bytes of which some are much more frequent than others, in two files; returns both texts."""
    folder.mkdir()
    draws = numpy.random.default_rng(7).random(size)
    text = (draws**2 * 256).astype(numpy.uint8).tobytes()
    texts = [text[: size // 2 + 1], text[size // 2 + 1 :]]
    for name, part in zip(("a.txt", "b.txt"), texts):
        (folder / name).write_bytes(part)
    return texts


def initial_distance(program, files, settings, out, peer):
    """How far Tessera's initial values are from those of rules.py, relative to each."""
    tessera_run.train(program, files, {**settings, **FROZEN}, out)
    _, tensors = tessera_run.read_checkpoint(out / "checkpoints/step-1")
    worst = 0.0
    for name, parameter in peer.parameters.items():
        values = parameter.detach().numpy()
        apart = numpy.abs(tensors[name] - values) / numpy.maximum(numpy.abs(values), 1e-300)
        worst = max(worst, float(apart.max()))
    return worst


def over(apart, limits):
    """The quantities that are beyond their limit; NaN is."""
    return [name for name, value in apart.items() if not value <= limits[name]]


def show(title, apart, limits):
    """Prints a row; True when all is within the limits."""
    beyond = over(apart, limits)
    cells = [
        f"{apart[name]:9.1e}{'!' if name in beyond else ' '}" if name in apart else " " * 10
        for name in limits
    ]
    print(f"{title:50}" + "".join(cells), flush=True)
    return not beyond


def check_training(peer, record):
    """That this training exercises what it claims to."""
    model, batch = peer.config["model"], peer.config["batch"]
    steps, bound = peer.config["run"]["steps"], peer.config["optimizer"]["clip"]
    assert min(record.norms) < bound < max(record.norms), "clipped steps and others"
    assert model["vocab"] % model["vocab_multiple"], "a padded vocabulary"
    assert peer.samples.windows < steps * batch["global"], "a second epoch"
    assert peer.samples.windows % batch["global"], "an epoch that ends inside a step"
    assert KEEP[-1] == steps, "the last step is compared"


def compare_all(program, trial, texts, folder):
    """(all within their limits, the record of each case)"""
    config, build = trial.config(), trial.peer
    peers = {name: build(config, texts, dtype).train(KEEP) for name, dtype in PEERS.items()}
    (trial.check or check_training)(build(config, texts), peers["double"])
    fine, records = True, {}
    print(f"{'Tessera against PyTorch':50}" + "".join(f"{name:>9} " for name in SINGLE))
    for number, case in enumerate(trial.cases):
        files = {key: folder / "text" / name for key, name in trial.keys.items()}
        settings = {**files, **case.settings}
        frozen = folder / f"{number}-frozen"
        initial = initial_distance(program, trial.files, settings, frozen, build(config, texts))
        tessera_run.train(program, trial.files, settings, folder / str(number))
        record = records[case.title] = tessera_run.read(folder / str(number), KEEP)
        for name in case.peers:
            apart = {"initial": initial, **distances(record, peers[name])}
            fine &= show(f"{case.title} | {name}", apart, case.limits)
    show("PyTorch: single against double", distances(peers["single"], peers["double"]), SINGLE)
    return fine, records


def notice_all(trial, texts, record):
    """Every mistake must be beyond the limits of single precision, the wide ones."""
    print("\nmistakes that must be noticed (!)")
    fine = True
    for mistake in trial.mistakes:
        apart = distances(record, mistake(trial.config(), texts).train(KEEP))
        fine &= not show(mistake.__doc__, apart, SINGLE)
    return fine


def mistakes_of(module, base):
    """The trainings that are `base` with one mistake."""
    found = [value for value in vars(module).values() if isinstance(value, type)]
    return [value for value in found if base in value.mro()[1:]]


def run(trial, more=lambda program, folder: True):
    """Ends the process with what is wrong; `more` compares something else and says whether it is
    alike."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the built tessera")
    options = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = (trial.write or write_text)(folder / "text")
        try:
            alike, records = compare_all(options.program, trial, texts, folder)
            alike &= more(options.program, folder)
        except tessera_run.Failed as failure:
            sys.exit(f"failed: {failure}")
    if not alike:
        sys.exit("Tessera and PyTorch do not train alike: see ! above")
    noticed = notice_all(trial, texts, records[trial.noticed_in])
    print(f"{time.monotonic() - begin:.1f} s")
    if not noticed:
        sys.exit("a mistake was not noticed: the limits are too wide for it")
