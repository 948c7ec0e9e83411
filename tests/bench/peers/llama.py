"""A Llama in plain PyTorch, one process: the peer of one Tessera rank.

Blocks of gpt.py with RMSNorm, SwiGLU, grouped queries and rotary positions, without biases; the
head has weights of its own. Queries, keys and values are one product, and so are gate and up.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import gpt
from loop import Shape


@dataclass
class LlamaShape(Shape):
    kv_heads: int = 2
    ffn: int = 1024  # inner features of the MLP


def angles(shape, base=10000.0):
    """Cosines and sines [sequence, 1, head size], alike in both halves."""
    size = shape.hidden // shape.heads
    frequencies = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    table = torch.outer(torch.arange(shape.sequence, dtype=torch.float64), frequencies)
    table = torch.cat((table, table), -1)[:, None]
    return table.cos().float(), table.sin().float()


def turned(x, cos, sin):
    """x [batch, sequence, heads, head size] at its positions; pairs are a half apart."""
    first, second = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat((-second, first), -1) * sin.to(x.dtype)


def attend(qkv, heads, kv_heads, table, dropout):
    """Of a product [batch, sequence, (heads + 2 kv_heads) · head size]."""
    batch, sequence, _ = qkv.shape
    qkv = qkv.view(batch, sequence, heads + 2 * kv_heads, -1)
    qk, value = qkv.split((heads + kv_heads, kv_heads), 2)
    query, key = turned(qk, *table).split((heads, kv_heads), 2)
    y = F.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
        dropout_p=dropout, is_causal=True, enable_gqa=True,
    )
    return y.transpose(1, 2).reshape(batch, sequence, -1)


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads, self.kv_heads, self.dropout = shape.heads, shape.kv_heads, shape.dropout
        features = (shape.heads + 2 * shape.kv_heads) * (shape.hidden // shape.heads)
        self.qkv = nn.Linear(shape.hidden, features, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.table = angles(shape)

    def forward(self, x):
        return self.out(attend(self.qkv(x), self.heads, self.kv_heads, self.table, self.dropout))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, 2 * shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x):
        return self.down(swiglu(self.up(x)))


class Block(gpt.Block):
    attention_kind, mlp_kind, norm_kind = Attention, Mlp, nn.RMSNorm


class Llama(gpt.Gpt):
    block_kind, learned_positions, tied = Block, False, False


if __name__ == "__main__":
    gpt.main(Llama, LlamaShape)
