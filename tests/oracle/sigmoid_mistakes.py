"""Trainings with one mistake in the choice by groups, sigmoid and bias each."""

import torch

from expert_peer import SigmoidExperts, SigmoidPeer


class KeepsTheBias(SigmoidPeer):
    """a bias that never moves"""

    def end_step(self):
        pass


class CountsAllSteps(SigmoidPeer):
    """a bias that follows the loads of all steps"""

    class experts(SigmoidExperts):
        def end_step(self, rate):
            self.bias += rate * torch.sign(self.counts.mean() - self.counts)


class WeighsWithTheBias(SigmoidPeer):
    """the bias in the weights"""

    class experts(SigmoidExperts):
        def weights_of(self, scores, experts):
            weights = self.among(scores).gather(1, experts)
            return self.scale * weights / weights.sum(1, keepdim=True)


class ChoosesAmongAll(SigmoidPeer):
    """experts of all groups"""

    def build(self, sizes):
        model = super().build(sizes)
        for block in model.blocks:
            block.mlp.groups = block.mlp.group_top_k = 1
        return model


class ForgetsTheScale(SigmoidPeer):
    """weights that add up to one"""

    def build(self, sizes):
        model = super().build(sizes)
        for block in model.blocks:
            block.mlp.scale = 1
        return model


class SharesBySoftmax(SigmoidPeer):
    """softmax in the loss for the loads"""

    def shares(self, scores):
        return scores.softmax(-1)
