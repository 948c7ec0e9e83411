"""The GPT of gpt_experts.py on replicas that share the experts: expert parallelism by hand.

Each rank takes its part of the batch and keeps its part of the experts. Rows go to the ranks of
their experts and back by all-to-all over Gloo, forward and backward; the gradients of everything
else are averaged by DistributedDataParallel while the backward pass runs.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 reports. Every
rank draws the whole model from one seed, so that the losses can be compared with gpt_experts.py.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from experts import ExpertShape, Experts, with_experts
from gpt import Gpt
from loop import arguments, prepared, report, shape_of, timed_steps


class Exchange(torch.autograd.Function):
    """Rows to other ranks, `sent` to each, `received` of each; backward the other way."""

    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.way_back = received, sent, group
        return exchanged(x, sent, received, group)

    @staticmethod
    def backward(ctx, gradient):
        return exchanged(gradient.contiguous(), *ctx.way_back), None, None, None


def exchanged(x, sent, received, group):
    y = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(y, x, received, sent, group=group)
    return y


class ParallelExperts(Experts):
    """Experts of which this rank holds a part."""

    group = None  # one of its own: DistributedDataParallel reduces at the same time

    def keep_part(self):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        for name in ("up", "down"):
            part = getattr(self, name).detach().chunk(ranks)[rank].clone()
            setattr(self, name, nn.Parameter(part))

    def exchange_and_compute(self, rows, weights, counts):
        ranks, group = dist.get_world_size(), self.group
        theirs = torch.empty_like(counts)  # theirs[source, expert of mine]
        dist.all_to_all_single(theirs, counts, group=group)
        theirs = theirs.view(ranks, -1)
        sent = counts.view(ranks, -1).sum(1).tolist()
        received = theirs.sum(1).tolist()
        packed = Exchange.apply(torch.cat((rows, weights[:, None]), 1), sent, received, group)
        owners = torch.arange(theirs.shape[1]).repeat(ranks).repeat_interleave(theirs.flatten())
        order = owners.argsort(stable=True)  # by source, then expert; to by expert
        rows, weights = packed[order].split((rows.shape[1], 1), 1)
        y = self.compute(rows.contiguous(), weights[:, 0], theirs.sum(0))
        back = torch.empty_like(y).index_copy(0, order, y)
        return Exchange.apply(back, received, sent, group)


def main():
    options = arguments(ExpertShape)
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ParallelExperts.group = dist.new_group(list(range(ranks)))
    torch.manual_seed(options.seed)
    shape = shape_of(options, ExpertShape)
    model = with_experts(Gpt(shape), shape, ParallelExperts)
    for block in model.blocks:
        block.mlp.keep_part()
    is_expert = lambda name: name.endswith(("mlp.up", "mlp.down"))
    names = [name for name, _ in model.named_parameters() if is_expert(name)]
    experts = [p for name, p in model.named_parameters() if is_expert(name)]
    dense = [p for name, p in model.named_parameters() if not is_expert(name)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
    loss_of = prepared(options, DistributedDataParallel(model))

    def accumulate(tokens, targets):
        """An expert has the rows of all ranks, each of which took the mean over its own part."""
        loss = loss_of(tokens.chunk(ranks)[rank], targets.chunk(ranks)[rank])
        loss.backward()
        for parameter in experts:
            parameter.grad /= ranks
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        return whole / ranks

    def clip(parameters):
        """The norm has dense parameters once and the experts of all ranks."""
        square = nn.utils.get_total_norm([p.grad for p in experts]) ** 2
        dist.all_reduce(square)
        norm = (square + nn.utils.get_total_norm([p.grad for p in dense]) ** 2).sqrt()
        nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)

    result = timed_steps(options, shape, accumulate, list(model.parameters()), clip)
    if rank == 0:
        report(result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
