"""Megatron-Core's MoE layer (SequentialMLP, dispatcher "allgather") in the place of experts.py.

Its router asks CUDA for the device to draw on, and looks for Transformer Engine under a name that
is missing where that is not installed; both are answered here. All else is Megatron-Core's.
"""

import atexit
import os
import warnings

import torch
import torch.distributed as dist
from torch.nn import functional as F

from experts import Experts


def layer_of(shape):
    warnings.filterwarnings("ignore")
    torch.cuda.current_device = lambda: "cpu"
    from megatron.core import parallel_state
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.transformer.moe import moe_utils
    from megatron.core.transformer.moe.moe_layer import MoELayer
    from megatron.core.transformer.transformer_config import TransformerConfig

    moe_utils.te_general_gemm = None
    if not dist.is_initialized():
        os.environ.update(RANK="0", WORLD_SIZE="1")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        atexit.register(dist.destroy_process_group)  # threads that outlive the interpreter abort
        parallel_state.initialize_model_parallel()
    config = TransformerConfig(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        ffn_hidden_size=shape.ffn,
        moe_ffn_hidden_size=shape.ffn,
        num_moe_experts=shape.experts,
        moe_router_topk=shape.top_k,
        moe_router_load_balancing_type="none",
        moe_token_dispatcher_type="allgather",
        gated_linear_unit=True,
        activation_func=F.silu,
        bias_activation_fusion=False,
        add_bias_linear=False,
        use_cpu_initialization=True,
    )
    spec = get_moe_module_spec(use_te=False, num_experts=shape.experts, moe_grouped_gemm=False)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    return MoELayer(config, spec.submodules, layer_number=1, pg_collection=groups)


class MegatronExperts(Experts):
    """Starts from the values that experts.py draws, so that the losses can be compared."""

    def initialise(self):
        super().initialise()
        layer = layer_of(self.shape)
        with torch.no_grad():
            layer.router.weight.copy_(self.router)
            for number, expert in enumerate(layer.experts.local_experts):
                expert.linear_fc1.weight.copy_(self.up[number].T)
                expert.linear_fc2.weight.copy_(self.down[number].T)
        self.router = self.up = self.down = None
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]  # batch and sequence change places, which rows do not mind
