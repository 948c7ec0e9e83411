"""Trains 200 steps in bf16, with Tessera and with PyTorch's autocast, from three seeds.

Two bf16 trainings of one seed drift apart: they round in other places. Their final losses must not
be farther apart than those of PyTorch's own three seeds are.
"""

import copy

import numpy
import torch

import tessera_run
from peer import Peer

SEEDS = (1, 2, 3)
STEPS, LAST = 200, 20  # the final loss is the mean of the last steps'
SETTINGS = {
    "run.steps": STEPS,
    "lr.peak": 3e-3,
    "lr.warmup_steps": 20,
    "validation.every_steps": 0,
    "checkpoint.save": "false",
}
DEVICES = ("reference", "cpu")  # those that compute in bf16


class Autocast(Peer):
    """FP32 parameters and optimizer, autocast around the model."""

    def loss(self, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().loss(batch)


def words(size=30000):
    """A text in which bytes follow from those before them, so that there is something to learn."""
    draw = numpy.random.default_rng(11)
    vocabulary = [bytes(draw.integers(97, 123, draw.integers(2, 8))) for _ in range(60)]
    ranks = (draw.random(size // 3) ** 2 * len(vocabulary)).astype(int)
    return b" ".join(vocabulary[rank] for rank in ranks)[:size]


def configured(config, seed):
    changed = copy.deepcopy(config)
    for path, value in {**SETTINGS, "run.seed": seed}.items():
        table, key = path.split(".")
        changed[table][key] = value
    changed["validation"]["every_steps"] = STEPS + 1
    return changed


def final(losses):
    return float(numpy.mean(losses[-LAST:]))


def tessera_final(program, files, device, seed, out, text):
    settings = {
        **SETTINGS,
        "run.seed": seed,
        "data.path": text,
        "device.type": device,
        "precision.compute": "bf16",
    }
    tessera_run.train(program, files, settings, out)
    return final(tessera_run.read(out, ()).losses)


def compare(program, files, config, folder):
    """True when every seed's final loss is as near as seeds are."""
    text = words()
    (folder / "words.txt").write_bytes(text)
    peers = {
        peer: [
            final(peer(configured(config, s), [text], torch.float32).train(()).losses)
            for s in SEEDS
        ]
        for peer in (Peer, Autocast)
    }
    spread = max(peers[Autocast]) - min(peers[Autocast])
    print(f"\nbf16: mean loss of the last {LAST} of {STEPS} steps; seeds spread by {spread:.4f}")

    def show(title, losses):
        apart = max(abs(a - b) for a, b in zip(losses, peers[Autocast], strict=True))
        cells = "".join(f"{loss:9.4f} " for loss in losses)
        print(f"{title:50}{cells} apart {apart:.4f}{'' if apart <= spread else ' !'}", flush=True)
        return apart <= spread

    show("PyTorch, autocast", peers[Autocast])
    show("PyTorch, FP32", peers[Peer])
    fine = True
    for device in DEVICES:
        losses = [
            tessera_final(
                program, files, device, s, folder / f"bf16-{device}-{s}", folder / "words.txt"
            )
            for s in SEEDS
        ]
        fine &= show(f"Tessera, {device}", losses)
    return fine
