"""The same training in PyTorch: the model of tests/bench/peers/gpt.py, PyTorch's own AdamW,
clipping and learning rates. Initial values and samples come from rules.py."""

import math
import sys
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

import rules
from record import Record

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench/peers"))
from gpt import Gpt
from loop import Shape

MOMENTS = {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}


def tessera_names(layers):
    """Tessera's name of each of the peer's parameters."""
    names = {
        "tokens.weight": "embedding.weight",
        "positions": "embedding.position",
        "norm.weight": "head.norm.weight",
        "norm.bias": "head.norm.bias",
    }
    modules = {
        "norm1": "attention_norm",
        "attention.qkv": "attention.qkv",
        "attention.out": "attention.proj",
        "norm2": "mlp_norm",
        "mlp.up": "mlp.up",
        "mlp.down": "mlp.down",
    }
    experts = {
        "mlp.router": "mlp.router.weight",
        "mlp.up": "mlp.experts.up",
        "mlp.down": "mlp.experts.down",
    }
    for layer in range(layers):
        for ours, theirs in modules.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{layer}.{ours}.{kind}"] = f"layers.{layer}.{theirs}.{kind}"
        for ours, theirs in experts.items():
            names[f"blocks.{layer}.{ours}"] = f"layers.{layer}.{theirs}"
    return names


def initial_values(config, name, shape):
    """What Tessera's parameter of this name starts from."""
    if name.endswith("bias"):
        return torch.zeros(shape, dtype=torch.float64)
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=torch.float64)
    deviation = config["model"]["init_std"]
    if name.endswith(("attention.proj.weight", "mlp.down.weight", "mlp.experts.down")):
        deviation /= math.sqrt(2 * config["model"]["layers"])
    return torch.from_numpy(rules.normal(config["run"]["seed"], name, tuple(shape), deviation))


class Peer:
    """One training. mistakes.py overrides what can be got wrong."""

    def __init__(self, config, texts, dtype=torch.float64):
        self.config, self.dtype = config, dtype
        model, run = config["model"], config["run"]
        data = config["data"]
        length = config["batch"]["sequence_length"]
        self.samples = rules.Samples(texts, length, data["validation"], run["seed"])
        self.model = self.build((model["layers"], model["hidden"], model["heads"], length,
                                 config["batch"]["global"], model["vocab"], model["dropout"]))
        self.model.to(dtype)
        names = self.names(model["layers"])
        self.parameters = {names[n]: p for n, p in self.model.named_parameters()}
        for name, parameter in self.parameters.items():
            with torch.no_grad():
                parameter.copy_(initial_values(config, name, parameter.shape))

    def build(self, sizes):
        return Gpt(Shape(*sizes))

    def names(self, layers):
        return tessera_names(layers)

    def decays(self, name):
        return not name.endswith(("bias", "norm.weight"))

    def optimizer(self):
        rule = self.config["optimizer"]["rule"]
        groups = [
            {"params": [p for n, p in self.parameters.items() if self.decays(n)],
             "weight_decay": rule["weight_decay"]},
            {"params": [p for n, p in self.parameters.items() if not self.decays(n)],
             "weight_decay": 0.0},
        ]
        betas = (rule["beta1"], rule["beta2"])
        peak = self.config["lr"]["peak"]
        return torch.optim.AdamW(groups, lr=peak, betas=betas, eps=rule["eps"])

    def decay_steps(self):
        return self.config["run"]["steps"] - self.config["lr"]["warmup_steps"]

    def schedule(self, optimizer):
        warmup = self.config["lr"]["warmup_steps"]
        rise = LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)
        fall = CosineAnnealingLR(optimizer, self.decay_steps(), self.config["lr"]["min"])
        return SequentialLR(optimizer, [rise, fall], [warmup - 1])

    def clip(self):
        bound = self.config["optimizer"]["clip"]
        return clip_grad_norm_(self.parameters.values(), bound).item()

    def batch(self, step):
        size = self.config["batch"]["global"]
        return self.samples.train((step - 1) * size, size)

    def loss(self, batch):
        tokens, targets = map(torch.from_numpy, batch)
        return self.model(tokens, targets)

    def auxiliary_loss(self):
        """What is trained besides the loss that is told, of the last forward pass."""
        return 0

    def end_step(self):
        """What follows an update."""

    def tensors(self, optimizer):
        """Returns them as a checkpoint of Tessera holds them."""
        found = {}
        for name, parameter in self.parameters.items():
            found[name] = parameter.detach()
            for theirs, ours in MOMENTS.items():
                found[f"{name}/{theirs}"] = optimizer.state[parameter][ours]
        return {name: tensor.double().numpy().copy() for name, tensor in found.items()}

    def train(self, keep):
        """The record of a run, with the tensors of the steps in `keep`."""
        record = Record()
        optimizer = self.optimizer()
        schedule = self.schedule(optimizer)
        validation = self.config["validation"]
        for step in range(1, self.config["run"]["steps"] + 1):
            record.rates.append(optimizer.param_groups[0]["lr"])
            loss = self.loss(self.batch(step))
            (loss + self.auxiliary_loss()).backward()
            record.losses.append(loss.item())
            record.norms.append(self.clip())
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            self.end_step()
            if step in keep:
                record.tensors[step] = self.tensors(optimizer)
            if step % validation["every_steps"] == 0:
                self.model.eval()
                with torch.no_grad():
                    batch = self.samples.validation(validation["samples"])
                    record.validations[step] = self.loss(batch).item()
                self.model.train()
        return record
