"""Models of transformers wholly in FP64.

`model.double()` leaves much in FP32: the rotary table, norms, the softmax of attention and routers
name torch.float32 or call .float(). Within in_doubles() these names mean FP64.
"""

import contextlib
from unittest import mock

import torch


@contextlib.contextmanager
def in_doubles():
    with contextlib.ExitStack() as patches:
        for name in ("float", "float32"):
            patches.enter_context(mock.patch.object(torch, name, torch.float64))
        patches.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield


def doubled(model):
    """The same values, with a rotary table that was computed in FP64. To be called in_doubles()."""
    wide = type(model)(type(model.config)(**model.config.to_dict())).double().eval()
    wide.config._experts_implementation = "eager"  # the grouped product has no FP64
    wide.load_state_dict({name: tensor.double() for name, tensor in model.state_dict().items()})
    return wide
