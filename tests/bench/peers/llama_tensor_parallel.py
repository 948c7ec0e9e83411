"""The Llama of llama.py split over ranks by hand, as gpt_tensor_parallel.py splits its GPT."""

import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import gpt_tensor_parallel
from gpt_tensor_parallel import Copy, ParallelGpt, Reduce, part
from llama import Llama, LlamaShape, angles, attend, swiglu


class Block(gpt_tensor_parallel.Block):
    def __init__(self, shape, full, rng):
        nn.Module.__init__(self)
        ranks, size = dist.get_world_size(), shape.hidden // shape.heads
        self.heads, self.kv_heads = shape.heads // ranks, shape.kv_heads // ranks
        self.dropout, self.rng, self.table = shape.dropout, rng, angles(shape)
        self.norm1, self.norm2 = full.norm1, full.norm2
        sections = [heads * size for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
        self.qkv_weight = part(full.attention.qkv.weight, 0, sections)
        self.out_weight = part(full.attention.out.weight, 1)
        self.up_weight = part(full.mlp.up.weight, 0, shape.ffn)
        self.down_weight = part(full.mlp.down.weight, 1)

    def attention(self, x):
        qkv = F.linear(Copy.apply(x), self.qkv_weight)
        with self.rng():
            y = attend(qkv, self.heads, self.kv_heads, self.table, self.dropout)
        return Reduce.apply(F.linear(y, self.out_weight))

    def mlp(self, x):
        x = swiglu(F.linear(Copy.apply(x), self.up_weight))
        return Reduce.apply(F.linear(x, self.down_weight))


class ParallelLlama(ParallelGpt):
    block = Block


if __name__ == "__main__":
    gpt_tensor_parallel.main(ParallelLlama, Llama, LlamaShape)
