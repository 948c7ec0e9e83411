"""The same GPT on data-parallel replicas: the peer of Tessera's ZeRO-1.

DistributedDataParallel, or with --sharded FSDP2 (`fully_shard` of each block and of the rest), over
Gloo. FSDP2 gathers bf16 parameters under --autocast and reduces gradients in FP32, as Tessera does.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 reports. Every
rank draws the whole model from one seed and takes its part of each batch, so that the losses can be
compared with those of gpt.py.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpt import Gpt
from loop import arguments, prepared, report, shape_of, timed_steps


def sharded(model, options):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy()
    if options.autocast:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    shape = shape_of(options)
    model = Gpt(shape)
    model = sharded(model, options) if options.sharded else DistributedDataParallel(model)
    loss_of = prepared(options, model)

    def accumulate(tokens, targets):
        """Means of equal parts: their mean is that of the batch, and so are the gradients."""
        loss = loss_of(tokens.chunk(ranks)[rank], targets.chunk(ranks)[rank])
        loss.backward()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        return whole / ranks

    clip = lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0)
    result = timed_steps(options, shape, accumulate, list(model.parameters()), clip)
    if rank == 0:
        report(result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
