"""transformers' BertForPreTraining on the batches of bert.py. Its head computes every row."""

import bert
import gpt
import quiet_transformers  # noqa: F401  first

import torch
from transformers import BertConfig, BertForPreTraining


class Bert(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.model = BertForPreTraining(BertConfig(
            vocab_size=shape.vocabulary, hidden_size=shape.hidden,
            num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
            intermediate_size=4 * shape.hidden, max_position_embeddings=shape.sequence,
            hidden_dropout_prob=shape.dropout, attention_probs_dropout_prob=shape.dropout))

    def forward(self, tokens, segments, places, targets, orders):
        labels = torch.full_like(tokens, -100).scatter(1, places, targets)
        return self.model(tokens, token_type_ids=segments, labels=labels,
                          next_sentence_label=orders).loss


if __name__ == "__main__":
    gpt.main(Bert, bert.BertShape, bert.batches)
