"""A mixture of experts in plain PyTorch, in the place of the MLP of gpt.py.

A token goes to the experts of its `top_k` largest scores; their outputs are summed with the softmax
of these scores. An expert is SwiGLU between two matrices without biases. Rows are sorted by expert,
so that an expert's product takes consecutive rows; the products are a loop, or `grouped_mm`.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from loop import Shape


@dataclass
class ExpertShape(Shape):
    experts: int = 8
    top_k: int = 2
    ffn: int = 1536  # inner features of an expert
    products: str = "loop"  # or grouped_mm; or megatron: all of megatron_experts.py
    load: str = "learned"  # or balanced: rows take the experts in turn; hot: the first top_k


class Experts(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.router = nn.Parameter(torch.empty(shape.experts, shape.hidden))
        self.up = nn.Parameter(torch.empty(shape.experts, shape.hidden, 2 * shape.ffn))
        self.down = nn.Parameter(torch.empty(shape.experts, shape.ffn, shape.hidden))

    def initialise(self):
        for parameter in (self.router, self.up):
            nn.init.normal_(parameter, std=0.02)
        nn.init.normal_(self.down, std=0.02 / math.sqrt(2 * self.shape.layers))

    def chosen(self, scores):
        """The experts of each row, [rows, top_k]."""
        choices = torch.arange(self.shape.top_k)
        if self.shape.load == "balanced":
            rows = torch.arange(len(scores))[:, None]
            return (rows * self.shape.top_k + choices) % self.shape.experts
        if self.shape.load == "hot":
            return choices.expand(len(scores), -1)
        return scores.topk(self.shape.top_k).indices

    def weights_of(self, scores, experts):
        return scores.gather(1, experts).softmax(-1)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        scores = self.scores = rows @ self.router.T
        experts = self.chosen(scores)
        weights = self.weights_of(scores, experts)
        order = experts.flatten().argsort(stable=True)
        tokens = order // self.shape.top_k
        y = self.exchange_and_compute(
            rows[tokens],
            weights.flatten()[order],
            experts.flatten().bincount(minlength=self.shape.experts),
        )
        return torch.zeros_like(rows).index_add(0, tokens, y).view_as(x)

    def exchange_and_compute(self, rows, weights, counts):
        return self.compute(rows, weights, counts)

    def compute(self, rows, weights, counts):
        """Rows of an expert are consecutive; `counts` of them each."""
        if self.shape.products == "grouped_mm" and len(rows) > 0:  # it refuses none at all
            ends = counts.cumsum(0).to(torch.int32)
            product = lambda x, weight: torch._grouped_mm(x, weight, offs=ends)
            return product(self.activated(product(rows, self.up), weights), self.down)
        found = []
        pieces = zip(rows.split(counts.tolist()), weights.split(counts.tolist()))
        for expert, (x, weight) in enumerate(pieces):
            found.append(self.activated(x @ self.up[expert], weight) @ self.down[expert])
        return torch.cat(found)

    def activated(self, x, weights):
        """The weight multiplies the inner rows: the same sum, and less to keep for its gradient."""
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up * weights[:, None]


def with_experts(model, shape, kind=Experts):
    """The model of gpt.py with experts in every block."""
    for block in model.blocks:
        block.mlp = kind(shape)
        block.mlp.initialise()
    return model
