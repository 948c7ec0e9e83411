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
        _, length, experts = scores.shape
        top_k = self.config["model"]["block"]["mlp"]["top_k"]
        chosen = F.one_hot(scores.topk(top_k).indices, experts).to(scores.dtype)
        choices = chosen.sum((1, 2)) / (length * top_k)
        return experts * (choices * scores.softmax(-1).mean(1)).sum(-1).mean()

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
