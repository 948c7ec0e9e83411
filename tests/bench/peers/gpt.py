"""GPT in plain PyTorch, eager, one process: the peer of one Tessera rank.

Pre-LN blocks, learned positions, GELU (tanh), causal scaled_dot_product_attention, tied head.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from loop import Shape, arguments, batches, report, shape_of, train


class Attention(nn.Module):
    causal = True

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
            query, key, value, dropout_p=self.dropout, is_causal=self.causal
        )
        return self.out(y.transpose(1, 2).reshape(batch, sequence, hidden))


class Mlp(nn.Module):
    approximate = "tanh"

    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, 4 * shape.hidden)
        self.down = nn.Linear(4 * shape.hidden, shape.hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Block(nn.Module):
    attention_kind, mlp_kind, norm_kind = Attention, Mlp, nn.LayerNorm

    def __init__(self, shape):
        super().__init__()
        self.norm1 = self.norm_kind(shape.hidden)
        self.attention = self.attention_kind(shape)
        self.norm2 = self.norm_kind(shape.hidden)
        self.mlp = self.mlp_kind(shape)
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Gpt(nn.Module):
    block_kind, learned_positions, tied = Block, True, True

    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        if self.learned_positions:
            self.positions = nn.Parameter(torch.zeros(shape.sequence, shape.hidden))
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()
        self.blocks = nn.Sequential(*[self.block_kind(shape) for _ in range(shape.layers)])
        self.norm = self.block_kind.norm_kind(shape.hidden)
        if not self.tied:
            self.head = nn.Embedding(shape.vocabulary, shape.hidden)
        self.initialise(shape)

    def initialise(self, shape):
        """Normal(0, 0.02), residual outputs divided by sqrt(2 layers)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                scale = 1 / math.sqrt(2 * shape.layers) if residual else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        x = self.dropout(x + self.positions if self.learned_positions else x)
        head = self.tokens if self.tied else self.head
        logits = self.norm(self.blocks(x)) @ head.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main(model_class=Gpt, shape_class=Shape, feed=batches):
    options = arguments(shape_class)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    shape = shape_of(options, shape_class)
    with torch.device(options.device):  # initial values are made there
        model = model_class(shape)
    clip = lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0)
    report(train(options, shape, model, list(model.parameters()), clip, feed))


if __name__ == "__main__":
    main()
