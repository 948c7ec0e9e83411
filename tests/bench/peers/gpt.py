"""GPT in plain PyTorch, eager, one process: the peer of one Tessera rank.

Pre-LN blocks, learned positions, GELU (tanh), causal scaled_dot_product_attention, tied head.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from loop import arguments, report, shape_of, train


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(x).view(batch, sequence, 3, self.heads, hidden // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            query, key, value, dropout_p=self.dropout, is_causal=True
        )
        return self.out(y.transpose(1, 2).reshape(batch, sequence, hidden))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, 4 * shape.hidden)
        self.down = nn.Linear(4 * shape.hidden, shape.hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.hidden)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.hidden)
        self.mlp = Mlp(shape)
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Parameter(torch.zeros(shape.sequence, shape.hidden))
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()
        self.blocks = nn.Sequential(*[Block(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.hidden)
        self.initialise(shape)

    def initialise(self, shape):
        """Normal(0, 0.02), residual outputs divided by sqrt(2 layers)."""
        nn.init.normal_(self.positions, std=0.02)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                scale = 1 / math.sqrt(2 * shape.layers) if residual else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.dropout(self.tokens(tokens) + self.positions)
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    shape = shape_of(options)
    with torch.device(options.device):  # initial values are made there
        model = Gpt(shape)
    clip = lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0)
    report(train(options, shape, model, list(model.parameters()), clip))


if __name__ == "__main__":
    main()
