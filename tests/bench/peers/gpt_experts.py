"""The GPT of gpt.py with a mixture of experts in every block: one process."""

import torch
from torch import nn

from experts import ExpertShape, Experts, with_experts
from gpt import Gpt
from loop import arguments, report, shape_of, train


def main():
    options = arguments(ExpertShape)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    shape = shape_of(options, ExpertShape)
    kind = Experts
    if shape.products == "megatron":
        from megatron_experts import MegatronExperts as kind
    model = with_experts(Gpt(shape), shape, kind)
    clip = lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0)
    report(train(options, shape, model, list(model.parameters()), clip))


if __name__ == "__main__":
    main()
