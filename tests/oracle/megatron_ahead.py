"""The peer that predicts ahead (ahead_peer.py) against multi-token prediction of Megatron-Core: the
same loss, the same metric, the same gradients from the same values. Run by oracle.py."""

import contextlib
import sys

import torch
from torch.nn import functional as F

from ahead_peer import AheadGpt  # also finds the models of tests/bench/peers

from loop import Shape

SKIPPED, LIMIT, WEIGHT = 77, 1e-12, 0.5
SHAPE = Shape(layers=2, hidden=32, heads=4, sequence=12, batch=2, vocabulary=64)
# Parts of a parameter's name there and here, in the order of replacing.
NAMES = (
    ("embedding.word_embeddings", "tokens"), ("decoder.final_layernorm", "norm"),
    ("decoder.layers.", "blocks."), ("mtp.layers.", "ahead."), ("final_layernorm", "norm"),
    ("enorm", "embedding_norm"), ("hnorm", "hidden_norm"), ("eh_proj", "projection"),
    ("transformer_layer", "block"), ("input_layernorm", "norm1"), ("pre_mlp_layernorm", "norm2"),
    ("self_attention.linear_proj", "attention.out"), ("self_attention.linear_qkv", "attention.qkv"),
    ("mlp.linear_fc1", "mlp.up"), ("mlp.linear_fc2", "mlp.down"),
)


def name_here(name):
    for theirs, ours in NAMES:
        name = name.replace(theirs, ours)
    return name


def as_here(name, values):
    """Queries, keys and values lie head by head there, one after the other here."""
    if "linear_qkv" not in name:
        return values
    heads = values.view(SHAPE.heads, 3, -1, *values.shape[1:])
    return heads.transpose(0, 1).reshape(values.shape)


def megatron_model(depths):
    from megatron.core.models.gpt.gpt_layer_specs import (
        get_gpt_layer_local_spec, get_gpt_mtp_block_spec)
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    config = TransformerConfig(
        num_layers=SHAPE.layers, hidden_size=SHAPE.hidden, num_attention_heads=SHAPE.heads,
        mtp_num_layers=depths, mtp_loss_scaling_factor=WEIGHT, init_method_std=0.2,
        activation_func=lambda x: F.gelu(x, approximate="tanh"), use_cpu_initialization=True,
        hidden_dropout=0.0, attention_dropout=0.0, bias_dropout_fusion=False,
        bias_activation_fusion=False, gradient_accumulation_fusion=False,
        masked_softmax_fusion=False, persist_layer_norm=False)
    spec = get_gpt_layer_local_spec()
    model = GPTModel(
        config, spec, vocab_size=SHAPE.vocabulary, max_sequence_length=SHAPE.sequence,
        position_embedding_type="none", share_embeddings_and_output_weights=True,
        mtp_block_spec=get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False))
    # Its own cross entropy changes logits in place that a group of one rank hands on.
    model.compute_language_model_loss = lambda labels, logits: F.cross_entropy(
        logits.permute(1, 2, 0), labels, reduction="none")
    return model.double().train()


def without_cuda():
    """What asks for a device, or for its random numbers, where neither is used."""
    from megatron.core.tensor_parallel import random

    torch.cuda.current_device = lambda: torch.device("cpu")
    random.CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()


def farthest(depths):
    """The worst distance of the loss, of the metric, and of each gradient from its largest."""
    from megatron.core.transformer.multi_token_prediction import MTPLossLoggingHelper

    batch, length = SHAPE.batch, SHAPE.sequence
    text = torch.randint(0, SHAPE.vocabulary, (batch, length + 1))
    tokens, targets = text[:, :-1], text[:, 1:]
    theirs = megatron_model(depths)
    MTPLossLoggingHelper.tracker.clear()
    later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)[None, None]
    everywhere = torch.ones(batch, length, dtype=torch.float64)
    loss = theirs(tokens, torch.arange(length).repeat(batch, 1), later, labels=targets,
                  loss_mask=everywhere).mean()
    loss.backward()

    ours = AheadGpt(SHAPE, depths, WEIGHT, tied=True).double()
    here = dict(ours.named_parameters())
    with torch.no_grad():
        ours.positions.zero_()
        for name, values in theirs.named_parameters():
            here[name_here(name)].copy_(as_here(name, values))
    own = ours(tokens, targets)
    (own + ours.ahead_loss).backward()
    told = WEIGHT * MTPLossLoggingHelper.tracker["values"].mean()  # kept in single precision
    assert abs(told / ours.ahead_loss - 1) < 1e-6, (told, ours.ahead_loss)
    apart = [abs(own / loss - 1).item()]
    for name, values in theirs.named_parameters():
        gradient = as_here(name, values.grad)
        apart.append(((here[name_here(name)].grad - gradient).abs().max()
                      / gradient.abs().max()).item())
    assert len(apart) == len(here), "every parameter but the positions, and the loss"
    return max(apart)


def main():
    try:
        from megatron.core import parallel_state
    except ImportError:
        print("skipped: no Megatron-Core; tests/oracle/venv.sh installs it")
        sys.exit(SKIPPED)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    parallel_state.initialize_model_parallel()
    without_cuda()
    fine = True
    for depths in (1, 2, 3):
        apart = farthest(depths)
        fine &= apart <= LIMIT
        print(f"{depths} depths: {apart:.1e} from Megatron-Core", flush=True)
    torch.distributed.destroy_process_group()
    if not fine:
        sys.exit("the peer is not what Megatron-Core computes")


if __name__ == "__main__":
    main()
