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
    """microbatches count alike, whatever is masked"""

    def words_loss(self, logits, batch):
        count, size = len(logits), self.config["batch"]["micro"]
        total = 0
        for at in range(0, count, size):
            part = slice(at, at + size)
            if batch["loss_mask"][part].any():
                total += super().words_loss(logits[part], {name: values[part]
                                                           for name, values in batch.items()})
        return total * size / count


class BiasDecays(HuggingFace):
    """the bias of the logits decays"""

    def decays(self, name):
        return name == "head.bias" or super().decays(name)
