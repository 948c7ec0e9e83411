"""Trainings with one mistake in the experts each, of the kind that still trains."""

import torch
from torch.nn import functional as F

from expert_peer import ExpertPeer

from experts import Experts


class WeighsAmongAll(ExpertPeer):
    """weights are shares among all experts"""

    class experts(Experts):
        def weights_of(self, scores, experts):
            return scores.softmax(-1).gather(1, experts)


class WeighsTheNextChoice(ExpertPeer):
    """a choice's weight goes to the next choice"""

    class experts(Experts):
        def weights_of(self, scores, experts):
            return super().weights_of(scores, experts).roll(1, 1)


class TeachesNoRouter(ExpertPeer):
    """no gradient to the router"""

    class experts(Experts):
        def weights_of(self, scores, experts):
            return super().weights_of(scores.detach() + 0 * scores, experts)


class ChoosesOne(ExpertPeer):
    """one expert a token"""

    class experts(Experts):
        def weights_of(self, scores, experts):
            weights = super().weights_of(scores, experts)
            return torch.stack((weights.sum(1), torch.zeros(len(weights))), 1)


class DropsLastRow(ExpertPeer):
    """an expert's last row is dropped"""

    class experts(Experts):
        def compute(self, rows, weights, counts):
            last = counts.cumsum(0)[counts > 0] - 1
            kept = torch.ones_like(weights).index_fill(0, last, 0)
            return super().compute(rows, weights, counts) * kept[:, None]


class SwapsGateAndUp(ExpertPeer):
    """gate and up change places"""

    class experts(Experts):
        def activated(self, x, weights):
            up, gate = x.chunk(2, -1)
            return F.silu(gate) * up * weights[:, None]


class WeighsBeforeTheGate(ExpertPeer):
    """the weight multiplies what goes into the gate"""

    class experts(Experts):
        def activated(self, x, weights):
            gate, up = (x * weights[:, None]).chunk(2, -1)
            return F.silu(gate) * up


class DecaysNoRouter(ExpertPeer):
    """no weight decay on the router"""

    def decays(self, name):
        return super().decays(name) and not name.endswith("router.weight")


class BalancesNothing(ExpertPeer):
    """no loss for the loads"""

    def balance_loss(self, scores):
        return 0


class BalancesTheBatch(ExpertPeer):
    """loads of the batch instead of each sequence"""

    def balance_loss(self, scores):
        return super().balance_loss(scores.flatten(0, 1)[None])


class BalancesOneChoice(ExpertPeer):
    """loads of the first choices alone"""

    def fractions(self, scores):
        return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype).mean(1)


class SquaresTheMean(ExpertPeer):
    """z-loss of the mean log-sum-exp"""

    def z_loss(self, scores):
        return torch.logsumexp(scores, -1).mean().square()
