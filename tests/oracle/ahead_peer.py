"""The training of peer.py with depths that predict further ahead (DeepSeek-AI 2024, §2.2)."""

import torch
from torch import nn
from torch.nn import functional as F

from peer import Peer, tessera_names  # also finds the models of tests/bench/peers

from gpt import Block, Gpt


class Depth(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding_norm = nn.LayerNorm(shape.hidden)
        self.hidden_norm = nn.LayerNorm(shape.hidden)
        self.projection = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.block = Block(shape)
        self.norm = nn.LayerNorm(shape.hidden)

    def joined(self, embedding, hidden):
        """The embedding first, as DeepSeek's weights and Megatron-Core have it."""
        return torch.cat((self.embedding_norm(embedding), self.hidden_norm(hidden)), -1)

    def forward(self, embedding, hidden):
        return self.norm(self.block(self.projection(self.joined(embedding, hidden))))


class AheadGpt(Gpt):
    depth = Depth  # ahead_mistakes.py overrides what can be got wrong

    def __init__(self, shape, depths, weight, tied):
        super().__init__(shape)
        self.weight = weight
        self.ahead = nn.ModuleList([self.depth(shape) for _ in range(depths)])
        self.table = None if tied else nn.Parameter(torch.zeros_like(self.tokens.weight))

    def logits(self, hidden):
        return hidden @ (self.tokens.weight if self.table is None else self.table).T

    def forward(self, tokens, targets):
        last = self.blocks(self.dropout(self.tokens(tokens) + self.positions))
        hidden = self.norm(last)
        loss = F.cross_entropy(self.logits(hidden).flatten(0, 1), targets.flatten())
        if self.training:
            self.ahead_loss = self.loss_ahead(tokens, targets, self.first(last, hidden))
        return loss

    def first(self, last, hidden):
        """What the first depth begins with."""
        return hidden

    def loss_ahead(self, tokens, targets, hidden):
        losses = []
        for k, depth in enumerate(self.ahead, 1):
            hidden = depth(self.tokens(self.token_shifted(tokens, k)), hidden)
            losses.append(self.loss_of(self.logits(hidden), targets, k))
        return self.weight * self.over_depths(losses)

    def over_depths(self, losses):
        return sum(losses) / len(losses)

    def token_shifted(self, tokens, k):
        return shifted(tokens, k)

    def loss_of(self, logits, targets, k):
        """Mean over the positions that have a target."""
        return F.cross_entropy(logits[:, :-k].flatten(0, 1), targets[:, k:].flatten())


def shifted(values, k):
    return F.pad(values[:, k:], (0, k))


class AheadPeer(Peer):
    model_of = AheadGpt

    def build(self, sizes):
        from loop import Shape

        model = self.config["model"]
        ahead = model["predict_ahead"]
        self.ahead_losses = []
        return self.model_of(Shape(*sizes), ahead["layers"], ahead["weight"],
                             model.get("tied_embeddings", True))

    def names(self, layers):
        found = tessera_names(layers)
        found["table"] = "head.weight"
        block = {ours: theirs for ours, theirs in found.items() if ours.startswith("blocks.0.")}
        for depth in range(self.config["model"]["predict_ahead"]["layers"]):
            here = f"ahead.{depth}"
            for ours, theirs in block.items():
                found[f"{here}.block.{ours[len('blocks.0.'):]}"] = (
                    f"{here}.block.{theirs[len('layers.0.'):]}")
            found[f"{here}.projection.weight"] = f"{here}.projection.weight"
            for kind in ("weight", "bias"):
                found[f"{here}.norm.{kind}"] = f"{here}.head.norm.{kind}"
                for norm in ("embedding_norm", "hidden_norm"):
                    found[f"{here}.{norm}.{kind}"] = f"{here}.{norm}.{kind}"
        return found

    def auxiliary_loss(self):
        self.ahead_losses.append(self.model.ahead_loss.item())
        return self.model.ahead_loss
