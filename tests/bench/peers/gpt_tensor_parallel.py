"""The same GPT split over ranks by hand: the peer of Tessera's tensor parallelism.

Column-parallel then row-parallel linears, heads split, embedding, head and cross entropy split by
vocabulary, over Gloo. A layer costs two all-reduces forward and two backward; outside the layers
there are one for the embedding, one for the head's backward, two for the loss, one for the norm.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 reports.
Every rank draws the whole model from one seed and keeps its part, so that the losses can be
compared with those of gpt.py.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from gpt import Gpt
from loop import Shape, arguments, report, shape_of, train


class Copy(torch.autograd.Function):
    """Into a column-parallel product: identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    """Out of a row-parallel product: all-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Rng:
    """A second random stream, for dropout of what only this rank holds.

    The default stream is alike on all ranks, as dropout of replicated activations needs it.
    """

    def __init__(self, seed, used):
        self.used = used
        self.state = torch.Generator().manual_seed(seed).get_state()

    @contextlib.contextmanager
    def __call__(self):
        if not self.used:
            yield
            return
        shared = torch.get_rng_state()
        torch.set_rng_state(self.state)
        yield
        self.state = torch.get_rng_state()
        torch.set_rng_state(shared)


def part(tensor, dim, sizes=None):
    """This rank's part of a tensor; sections of these sizes along the dimension are cut alone."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sections = tensor.detach().split(sizes or tensor.shape[dim], dim)
    cut = [piece.chunk(ranks, dim)[rank] for piece in sections]
    return nn.Parameter(torch.cat(cut, dim).clone())


def whole(tensor):
    return nn.Parameter(tensor.detach().clone())


class Block(nn.Module):
    def __init__(self, shape, full, rng):
        super().__init__()
        self.heads = shape.heads // dist.get_world_size()
        self.dropout = shape.dropout
        self.rng = rng
        self.norm1, self.norm2 = full.norm1, full.norm2
        self.qkv_weight = part(full.attention.qkv.weight, 0, shape.hidden)
        self.qkv_bias = part(full.attention.qkv.bias, 0, shape.hidden)
        self.out_weight = part(full.attention.out.weight, 1)
        self.out_bias = whole(full.attention.out.bias)
        self.up_weight = part(full.mlp.up.weight, 0)
        self.up_bias = part(full.mlp.up.bias, 0)
        self.down_weight = part(full.mlp.down.weight, 1)
        self.down_bias = whole(full.mlp.down.bias)

    def attention(self, x):
        batch, sequence, _ = x.shape
        qkv = F.linear(Copy.apply(x), self.qkv_weight, self.qkv_bias)
        query, key, value = qkv.view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with self.rng():
            y = F.scaled_dot_product_attention(
                query, key, value, dropout_p=self.dropout, is_causal=True
            )
        y = y.transpose(1, 2).reshape(batch, sequence, -1)
        return Reduce.apply(F.linear(y, self.out_weight)) + self.out_bias

    def mlp(self, x):
        x = F.gelu(F.linear(Copy.apply(x), self.up_weight, self.up_bias), approximate="tanh")
        return Reduce.apply(F.linear(x, self.down_weight)) + self.down_bias

    def drop(self, x):
        return F.dropout(x, self.dropout) if self.dropout else x

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))


class CrossEntropy(torch.autograd.Function):
    """Mean cross entropy of logits split by vocabulary; logits are overwritten."""

    @staticmethod
    def forward(ctx, logits, targets, first):
        highest = logits.amax(-1, keepdim=True)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        logits.sub_(highest)
        local = targets - first
        mine = (local >= 0) & (local < logits.shape[-1])
        local = local.clamp(0, logits.shape[-1] - 1)
        target = logits.gather(-1, local.unsqueeze(-1)).squeeze(-1) * mine
        exponentials = logits.exp_()
        sums = torch.stack([exponentials.sum(-1), target])
        dist.all_reduce(sums)
        ctx.save_for_backward(exponentials.div_(sums[0].unsqueeze(-1)), local, mine)
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx, gradient):
        probabilities, local, mine = ctx.saved_tensors
        probabilities.scatter_add_(-1, local.unsqueeze(-1), -mine.float().unsqueeze(-1))
        return probabilities.mul_(gradient / local.numel()), None, None


class ParallelGpt(nn.Module):
    block = Block

    def __init__(self, shape, full, rng):
        super().__init__()
        self.tokens = part(full.tokens.weight, 0)
        self.first = dist.get_rank() * self.tokens.shape[0]
        self.positions = whole(full.positions) if full.learned_positions else None
        self.head = self.tokens if full.tied else part(full.head.weight, 0)
        self.blocks = nn.Sequential(*[self.block(shape, block, rng) for block in full.blocks])
        self.norm = full.norm
        self.dropout = shape.dropout
        self.rng = rng

    def look_up(self, tokens):
        """Tokens that another rank holds get zeros."""
        local = tokens - self.first
        mine = (local >= 0) & (local < self.tokens.shape[0])
        return F.embedding(local * mine, self.tokens) * mine.unsqueeze(-1)

    def forward(self, tokens, targets):
        x = Reduce.apply(self.look_up(tokens))
        x = x if self.positions is None else x + self.positions
        x = F.dropout(x, self.dropout) if self.dropout else x
        x = Copy.apply(self.norm(self.blocks(x)))
        logits = (x @ self.head.T).float()  # under autocast too, as its cross entropy takes them
        return CrossEntropy.apply(logits, targets, self.first)

    def complete_gradients(self):
        """What is left to sum over ranks behind the backward pass: here nothing."""

    def replicated(self):
        """Parameters that are alike on all ranks: counted once in the norm."""
        names = ("norm1.", "norm2.", "norm.", "positions", "out_bias", "down_bias")
        return {p for name, p in self.named_parameters() if any(n in name for n in names)}


def clip_by_global_norm(parameters, replicated, limit):
    once = dist.get_rank() == 0
    gradients = [p.grad for p in parameters]
    counted = [p.grad for p in parameters if once or p not in replicated]
    square = torch.nn.utils.get_total_norm(counted).square()
    dist.all_reduce(square)
    factor = (limit / (square.sqrt() + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, factor)


def main(model_class=ParallelGpt, whole_class=Gpt, shape_class=Shape):
    options = arguments(shape_class)
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    torch.manual_seed(options.seed)
    shape = shape_of(options, shape_class)
    rng = Rng(options.seed + 1 + dist.get_rank(), shape.dropout > 0)
    model = model_class(shape, whole_class(shape), rng)
    parameters = list(model.parameters())
    replicated = model.replicated()

    def clip(parameters):
        model.complete_gradients()
        clip_by_global_norm(parameters, replicated, 1.0)

    result = train(options, shape, model, parameters, clip)
    if dist.get_rank() == 0:
        report(result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
