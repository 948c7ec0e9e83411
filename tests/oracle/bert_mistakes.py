"""Trainings of a BERT with one mistake each."""

import torch
from torch.nn import functional as F

from bert_peer import HuggingFace


class PaddingIsSeen(HuggingFace):
    """padding is attended to"""

    def seen(self, batch):
        return torch.ones_like(batch["tokens"])


class OneSegment(HuggingFace):
    """both halves are of one segment"""

    def logits(self, tokens, segments, seen):
        return super().logits(tokens, torch.zeros_like(segments), seen)


class OrderIsSwapped(HuggingFace):
    """labels of the order change places"""

    def order_loss(self, logits, batch):
        return F.cross_entropy(logits, 1 - batch["label"].flatten())


class MeanOfMicrobatches(HuggingFace):
    """a microbatch counts as much as another, however many of its tokens are masked"""

    def loss(self, batch):
        size = self.config["batch"]["micro"]
        count = len(batch["tokens"])
        parts = [{name: values[at : at + size] for name, values in batch.items()}
                 for at in range(0, count, size)]
        return sum(super(MeanOfMicrobatches, self).loss(part) for part in parts) / len(parts)


class BiasDecays(HuggingFace):
    """the bias of the logits decays"""

    def decays(self, name):
        return name == "head.bias" or super().decays(name)
