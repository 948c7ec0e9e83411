"""A BERT in plain PyTorch, one process: the peer of one Tessera rank.

Blocks of gpt.py that see both sides, norms after the sums, GELU of the error function, segments; a
head of masked words over the masked places alone, with the tied table, and one of sentence order.
"""

from dataclasses import dataclass

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import gpt
from loop import Shape

MARKS = 3  # [CLS] and two [SEP], which nobody predicts


@dataclass
class BertShape(Shape):
    sequence: int = 128
    batch: int = 16
    vocabulary: int = 30522

    def masked(self):
        """Predictions of a sample."""
        return round(0.15 * (self.sequence - MARKS))


def batches(path, shape, device="cpu"):
    """Tokens, segments, masked places [batch, masked], what was there, and orders [batch]; two
    bytes of the file are a token."""
    draws = numpy.random.default_rng(7)
    pairs = numpy.fromfile(path, dtype=numpy.uint8).astype(numpy.int64).reshape(-1, 2)
    ids = torch.from_numpy((pairs[:, 0] * 256 + pairs[:, 1]) % shape.vocabulary)
    per_step = shape.batch * shape.sequence
    segments = (torch.arange(shape.sequence) >= shape.sequence // 2).long()
    step = 0
    while True:
        begin = step % (len(ids) // per_step) * per_step
        tokens = ids[begin : begin + per_step].view(shape.batch, shape.sequence).clone()
        chosen = [draws.choice(shape.sequence - 1, shape.masked(), replace=False) + 1
                  for _ in range(shape.batch)]
        places = torch.from_numpy(numpy.sort(numpy.stack(chosen)))
        targets = tokens.gather(1, places)
        tokens.scatter_(1, places, 4)
        orders = torch.from_numpy(draws.integers(0, 2, shape.batch))
        yield (part.to(device, non_blocking=True) for part in
               (tokens, segments.expand(shape.batch, -1), places, targets, orders))
        step += 1


class Attention(gpt.Attention):
    causal = False


class Mlp(gpt.Mlp):
    approximate = "none"


class Block(gpt.Block):
    attention_kind, mlp_kind = Attention, Mlp

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class Bert(gpt.Gpt):
    block_kind = Block

    def __init__(self, shape):
        super().__init__(shape)
        hidden = shape.hidden
        self.segments = nn.Embedding(2, hidden)
        self.dense, self.pooler = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.dense_norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))
        self.order = nn.Linear(hidden, 2)
        self.initialise(shape)

    def forward(self, tokens, segments, places, targets, orders):
        x = self.tokens(tokens) + self.positions + self.segments(segments)
        x = self.blocks(self.dropout(self.norm(x)))
        rows = x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))
        rows = self.dense_norm(F.gelu(self.dense(rows)))
        logits = F.linear(rows, self.tokens.weight, self.bias)
        order = self.order(torch.tanh(self.pooler(x[:, 0])))
        words = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return words + F.cross_entropy(order, orders)


if __name__ == "__main__":
    gpt.main(Bert, BertShape, batches)
