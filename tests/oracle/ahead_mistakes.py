"""Trainings with one mistake in what predicts ahead each, of the kind that still trains."""

import torch
from torch.nn import functional as F

from ahead_peer import AheadGpt, AheadPeer, Depth, shifted


class TargetOnceTooOften(AheadPeer):
    """targets are shifted once too often"""

    class model_of(AheadGpt):
        def loss_of(self, logits, targets, k):
            return super().loss_of(logits, shifted(targets, 1), k)


class MaskUnshifted(AheadPeer):
    """positions without a target count"""

    class model_of(AheadGpt):
        def loss_of(self, logits, targets, k):
            return F.cross_entropy(logits.flatten(0, 1), shifted(targets, k).flatten())


class MeanOverAll(AheadPeer):
    """a depth is a mean over the positions of the loss"""

    class model_of(AheadGpt):
        def loss_of(self, logits, targets, k):
            length = targets.shape[1]
            return super().loss_of(logits, targets, k) * (length - k) / length


class TokenOnceTooOften(AheadPeer):
    """tokens are shifted once too often"""

    class model_of(AheadGpt):
        def token_shifted(self, tokens, k):
            return shifted(tokens, k + 1)


class TokenOfThePosition(AheadPeer):
    """each depth sees the next token only"""

    class model_of(AheadGpt):
        def token_shifted(self, tokens, k):
            return shifted(tokens, 1)


class SumOverDepths(AheadPeer):
    """depths are summed, not averaged"""

    class model_of(AheadGpt):
        def over_depths(self, losses):
            return sum(losses)


class HiddenFirst(AheadPeer):
    """hidden values before the embedding"""

    class model_of(AheadGpt):
        class depth(Depth):
            def joined(self, embedding, hidden):
                return super().joined(embedding, hidden).roll(embedding.shape[-1], -1)


class OneNorm(AheadPeer):
    """the head's norm is left out"""

    class model_of(AheadGpt):
        class depth(Depth):
            def forward(self, embedding, hidden):
                y = self.block(self.projection(self.joined(embedding, hidden)))
                return y + 0 * self.norm(y)


class BeforeTheNorm(AheadPeer):
    """begins before the norm of the model's head"""

    class model_of(AheadGpt):
        def first(self, last, hidden):
            return last


class TeachesNoModel(AheadPeer):
    """no gradient from the depths to the blocks"""

    class model_of(AheadGpt):
        def first(self, last, hidden):
            return hidden.detach()


class AddsPositions(AheadPeer):
    """later tokens have positions, too"""

    class model_of(AheadGpt):
        def loss_ahead(self, tokens, targets, hidden):
            losses = []
            for k, depth in enumerate(self.ahead, 1):
                later = self.tokens(shifted(tokens, k)) + self.positions
                hidden = depth(later, hidden)
                losses.append(self.loss_of(self.logits(hidden), targets, k))
            return self.weight * self.over_depths(losses)


class WithoutDepths(AheadPeer):
    """nothing is trained on but the loss"""

    def auxiliary_loss(self):
        return 0 * super().auxiliary_loss()
