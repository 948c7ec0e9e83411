"""The GPT of gpt.py cut in two for torch.distributed.pipelining: the peer of Tessera's pipeline.

Rank 0 holds the embedding and the first half of the blocks, rank 1 the rest and the head. The tied
embedding is on both: its gradients are summed behind the backward passes and it counts once in the
norm. Every sequence of the batch is a microbatch of its own, as batch.micro = 1 is in Tessera.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 reports.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional as F

from gpt import Gpt
from gpt_tensor_parallel import clip_by_global_norm
from loop import arguments, report, shape_of, timed_steps


class FirstHalf(nn.Module):
    def __init__(self, full):
        super().__init__()
        self.tokens, self.positions, self.dropout = full.tokens, full.positions, full.dropout
        self.blocks = full.blocks[: len(full.blocks) // 2]

    def forward(self, tokens):
        return self.blocks(self.dropout(self.tokens(tokens) + self.positions))


class LastHalf(nn.Module):
    def __init__(self, full):
        super().__init__()
        self.tokens, self.norm = full.tokens, full.norm
        self.blocks = full.blocks[len(full.blocks) // 2 :]

    def forward(self, x):
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    assert ranks == 2, "the model is cut in two"
    torch.manual_seed(options.seed)
    shape = shape_of(options)
    half = (FirstHalf, LastHalf)[rank](Gpt(shape))
    stage = PipelineStage(half, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=shape.batch, loss_fn=cross_entropy)
    tied = half.tokens.weight

    def accumulate(tokens, targets):
        losses = []
        if stage.is_first:
            schedule.step(tokens, return_outputs=False)
            return torch.zeros(())  # the last stage knows it
        schedule.step(target=targets, losses=losses, return_outputs=False)
        return torch.stack([loss.detach() for loss in losses]).mean()

    def clip(parameters):
        dist.all_reduce(tied.grad)
        clip_by_global_norm(parameters, {tied}, 1.0)

    result = timed_steps(options, shape, accumulate, list(half.parameters()), clip)
    losses = [result["losses"]]
    dist.broadcast_object_list(losses, src=ranks - 1)
    if rank == 0:
        report({**result, "losses": losses[0]})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
