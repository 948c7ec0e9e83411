"""The training of peer.py with the experts of tests/bench/peers/experts.py in every block."""

import torch
from torch.nn import functional as F

from peer import Peer  # also finds the models of tests/bench/peers

from experts import Experts, ExpertShape, with_experts
from gpt import Gpt


class ExpertPeer(Peer):
    experts = Experts  # expert_mistakes.py overrides what can be got wrong

    def build(self, sizes):
        mlp = self.config["model"]["block"]["mlp"]
        shape = ExpertShape(*sizes, mlp["experts"], mlp["top_k"], mlp["ffn"])
        return with_experts(Gpt(shape), shape, self.experts)

    def balance_loss(self, scores):
        """Mean over sequences of experts · sum over experts of (its fraction of the choices) ·
        (mean of its shares); scores [sequence, position, expert]."""
        each = self.fractions(scores) * self.shares(scores).mean(1)
        return scores.shape[-1] * each.sum(-1).mean()

    def fractions(self, scores):
        """Returns each expert's share of the choices of each sequence: [sequence, expert]."""
        _, length, experts = scores.shape
        top_k = self.config["model"]["block"]["mlp"]["top_k"]
        chosen = F.one_hot(scores.topk(top_k).indices, experts).to(scores.dtype)
        return chosen.sum((1, 2)) / (length * top_k)

    def shares(self, scores):
        return scores.softmax(-1)

    def z_loss(self, scores):
        return torch.logsumexp(scores, -1).square().mean()

    def auxiliary_loss(self):
        mlp, length = self.config["model"]["block"]["mlp"], self.samples.sequence
        total = 0
        for block in self.model.blocks:
            scores = block.mlp.scores.view(-1, length, mlp["experts"])
            total += mlp["sequence_loss"] * self.balance_loss(scores)
            total += mlp["z_loss"] * self.z_loss(scores)
        return total


class SigmoidExperts(Experts):
    """The router of DeepSeek-V3 (DeepSeek-AI 2024, §2.1.2): experts of the best groups by sigmoid
    plus bias, weighed by sigmoid alone."""

    def __init__(self, shape):
        super().__init__(shape)
        self.register_buffer("bias", torch.zeros(shape.experts))
        self.register_buffer("counts", torch.zeros(shape.experts))

    def among(self, scores):
        """What the choice goes by."""
        return scores.sigmoid() + self.bias

    def chosen(self, scores):
        rows, experts = scores.shape
        groups = self.among(scores).view(rows, self.groups, -1)
        each = self.shape.top_k // self.group_top_k
        best = groups.topk(each).values.sum(-1).topk(self.group_top_k).indices
        open_ = torch.zeros(rows, self.groups, dtype=torch.bool).scatter(1, best, True)
        left = groups.masked_fill(~open_[:, :, None], -torch.inf).view(rows, experts)
        found = left.topk(self.shape.top_k).indices
        if self.training:
            self.counts += found.flatten().bincount(minlength=experts)
        return found

    def weights_of(self, scores, experts):
        weights = scores.sigmoid().gather(1, experts)
        return self.scale * weights / weights.sum(1, keepdim=True)

    def end_step(self, rate):
        self.bias += rate * torch.sign(self.counts.mean() - self.counts)
        self.counts.zero_()


class SigmoidPeer(ExpertPeer):
    experts = SigmoidExperts

    def build(self, sizes):
        model = super().build(sizes)
        router = self.config["model"]["block"]["mlp"]["router"]
        for block in model.blocks:
            for key in ("groups", "group_top_k", "scale"):
                setattr(block.mlp, key, router[key])
        return model

    def shares(self, scores):
        return scores.sigmoid() / scores.sigmoid().sum(-1, keepdim=True)

    def end_step(self):
        rate = self.config["model"]["block"]["mlp"]["router"]["bias_rate"]
        for block in self.model.blocks:
            block.mlp.end_step(rate)

    def tensors(self, optimizer):
        found = super().tensors(optimizer)
        for layer, block in enumerate(self.model.blocks):
            found[f"layers.{layer}.mlp.router.bias"] = block.mlp.bias.double().numpy().copy()
        return found
