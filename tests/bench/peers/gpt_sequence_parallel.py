"""The GPT of gpt_tensor_parallel.py with sequence parallelism: the peer of Tessera's.

Between the products a rank keeps its share of the rows [batch · sequence, hidden]. A column
product gathers them, keeps only its own, and gathers them once more backward while the gradient of
the input is computed (Korthikanti et al. 2022); a row product reduce-scatters its result. Norms,
biases behind row products and positions get partial gradients, summed in one all-reduce a step.

Gloo has a reduce-scatter, as slow as its all-reduce; an all-to-all of the parts and a sum take half
as long, so that is what stands here.
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F

import gpt_tensor_parallel
from gpt_tensor_parallel import Block, CrossEntropy, ParallelGpt


class Gathering:
    """An all-gather of rows on its way."""

    def __init__(self, x):
        self.whole = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
        self.work = dist.all_gather_into_tensor(self.whole, x.contiguous(), async_op=True)

    def wait(self):
        self.work.wait()
        return self.whole


class Scattering:
    """A reduce-scatter by rows on its way."""

    def __init__(self, x):
        self.sent = x.contiguous()
        self.parts = torch.empty_like(self.sent)
        self.work = dist.all_to_all_single(self.parts, self.sent, async_op=True)

    def wait(self):
        self.work.wait()
        return self.parts.view(dist.get_world_size(), -1, self.parts.shape[-1]).sum(0)


class GatheredLinear(torch.autograd.Function):
    """The linear of all ranks' rows."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return F.linear(Gathering(x).wait(), weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gathering = Gathering(x)
        scattering = Scattering(gradient @ weight)
        weight_gradient = gradient.T @ gathering.wait()
        bias_gradient = gradient.sum(0) if ctx.biased else None
        return scattering.wait(), weight_gradient, bias_gradient


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Scattering(x).wait()

    @staticmethod
    def backward(ctx, gradient):
        return Gathering(gradient).wait()


class RowsBlock(Block):
    """x: this rank's rows [rows, hidden]."""

    def __init__(self, shape, full, rng):
        super().__init__(shape, full, rng)
        self.sequence = shape.sequence

    def attention(self, x):
        qkv = GatheredLinear.apply(x, self.qkv_weight, self.qkv_bias)
        qkv = qkv.view(-1, self.sequence, 3, self.heads, qkv.shape[-1] // (3 * self.heads))
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        with self.rng():
            y = F.scaled_dot_product_attention(
                query, key, value, dropout_p=self.dropout, is_causal=True
            )
        y = y.transpose(1, 2).flatten(2).flatten(0, 1)
        return ReduceScatter.apply(F.linear(y, self.out_weight)) + self.out_bias

    def mlp(self, x):
        x = GatheredLinear.apply(x, self.up_weight, self.up_bias)
        x = F.gelu(x, approximate="tanh")
        return ReduceScatter.apply(F.linear(x, self.down_weight)) + self.down_bias

    def drop(self, x):
        with self.rng():
            return super().drop(x)


class RowsGpt(ParallelGpt):
    block = RowsBlock

    def forward(self, tokens, targets):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        x = ReduceScatter.apply(self.look_up(tokens).flatten(0, 1))
        rows = torch.arange(tokens.numel()).chunk(ranks)[rank] % tokens.shape[1]
        x = x + self.positions[rows]
        with self.rng():
            x = F.dropout(x, self.dropout) if self.dropout else x
        logits = GatheredLinear.apply(self.norm(self.blocks(x)), self.tokens, None)
        return CrossEntropy.apply(logits, targets.flatten(), self.first)

    def complete_gradients(self):
        partial = [p.grad for p in self.parameters() if p in self.replicated()]
        flat = torch.cat([gradient.flatten() for gradient in partial])
        dist.all_reduce(flat)
        for gradient, total in zip(partial, flat.split([g.numel() for g in partial])):
            gradient.copy_(total.view_as(gradient))


if __name__ == "__main__":
    gpt_tensor_parallel.main(RowsGpt)
