"""Trainings with one mistake each, of the kind that still trains: the comparison has to see it."""

import numpy
import torch
from torch.nn import functional as F

import rules
from peer import Peer


class DecaysEverything(Peer):
    """weight decay on biases and norms"""

    def decays(self, name):
        return True


class DecaysNoPositions(Peer):
    """no weight decay on the positions"""

    def decays(self, name):
        return super().decays(name) and name != "embedding.position"


class CountsTiedTableTwice(Peer):
    """the tied table twice in the gradient norm"""

    def clip(self):
        table = self.parameters["embedding.weight"]
        grads = [p.grad for p in [*self.parameters.values(), table]]
        norm = torch.nn.utils.get_total_norm(grads)
        bound = self.config["optimizer"]["clip"]
        torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), bound, norm)
        return norm.item()


class ClipsEachParameter(Peer):
    """each gradient is clipped on its own"""

    def clip(self):
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters.values()])
        for parameter in self.parameters.values():
            bound = self.config["optimizer"]["clip"]
            torch.nn.utils.clip_grad_norm_([parameter], bound)
        return norm.item()


class DecaysTooLong(Peer):
    """the cosine ends one update late"""

    def decay_steps(self):
        return super().decay_steps() + 1


class SumsMicrobatches(Peer):
    """gradients of microbatches summed as means"""

    def clip(self):
        for parameter in self.parameters.values():
            parameter.grad *= 3
        return super().clip()


class SeesPadding(Peer):
    """padding of the vocabulary in the softmax"""

    def loss(self, batch):
        """Zero logits add log(1 + padding / sum of exp(logits)) to each position's loss."""
        model = self.model
        x = model.tokens(torch.from_numpy(batch[0])) + model.positions
        logits = model.norm(model.blocks(x)) @ model.tokens.weight.T
        padding = -logits.shape[-1] % self.config["model"]["vocab_multiple"]
        return super().loss(batch) + torch.log1p(padding / logits.exp().sum(-1)).mean()


class ExactGelu(Peer):
    """GELU with erf instead of tanh"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for block in self.model.blocks:
            block.mlp.forward = lambda x, mlp=block.mlp: mlp.down(F.gelu(mlp.up(x)))


class OtherEpsilon(Peer):
    """1e-6 instead of 1e-5 in the norms"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6


class ReadsInOrder(Peer):
    """an epoch in the order of the text"""

    def window(self, ordinal):
        return ordinal % self.samples.windows

    def batch(self, step):
        size = self.config["batch"]["global"]
        ordinals = range((step - 1) * size, step * size)
        starts = [self.window(i) * self.samples.sequence for i in ordinals]
        return self.samples.cut(self.samples.text, starts)


class RepeatsEpoch(ReadsInOrder):
    """the second epoch in the order of the first"""

    def window(self, ordinal):
        windows = self.samples.windows
        return rules.permuted(ordinal % windows, windows, self.samples.key, 0)


class SwapsQueryAndKey(Peer):
    """queries and keys change places"""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        hidden = self.config["model"]["hidden"]
        with torch.no_grad():
            for block in self.model.blocks:
                weight = block.attention.qkv.weight
                weight[: 2 * hidden] = weight[: 2 * hidden].roll(hidden, 0)

    def tensors(self, optimizer):
        """With both back in their places: it is the attention that differs."""
        hidden = self.config["model"]["hidden"]
        found = super().tensors(optimizer)
        for name, values in found.items():
            if ".qkv." in name:
                values[: 2 * hidden] = numpy.roll(values[: 2 * hidden], hidden, axis=0)
        return found
