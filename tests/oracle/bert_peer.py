"""The training of peer.py of BERTs: transformers' BertForPreTraining, whose norms come after the
sums, and Megatron-Core's BertModel, whose norms come before the sub-layers."""

import contextlib
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from hugging_face import Failed  # first: it quietens what follows
from peer import MOMENTS, Peer, initial_values

from transformers import BertConfig, BertForPreTraining

EPS = 1e-5  # of norms, Tessera's default


@dataclass
class Samples:
    """Of sample_server: by set, a list of samples, each a list of fields."""

    training: list
    held_back: list

    def train(self, first, count):
        return tensors_of(self.training[first : first + count])

    def validation(self, count):
        return tensors_of(self.held_back[:count])


def tensors_of(samples):
    names = ("tokens", "segments", "targets", "loss_mask", "last", "label", "label_mask")
    batch = {name: torch.tensor([sample[i] for sample in samples])
             for i, name in enumerate(names)}
    if not bool((batch["label_mask"] == 1).all()):
        raise Failed("a sample without an order of its halves")
    return batch


class Rows:
    """Several parameters there that are the rows of one here."""

    def __init__(self, *parameters):
        self.parameters = parameters

    def here(self, values):
        return torch.cat(values) if len(values) > 1 else values[0]

    def there(self, value):
        return value.split([len(parameter) for parameter in self.parameters])


class Heads(Rows):
    """Queries, keys and values that lie head by head there, one after the other here."""

    def __init__(self, heads, parameter):
        super().__init__(parameter)
        self.heads = heads

    def here(self, values):
        [value] = values
        return value.view(self.heads, 3, -1, *value.shape[1:]).transpose(0, 1).reshape(value.shape)

    def there(self, value):
        parts = value.view(3, self.heads, -1, *value.shape[1:])
        return [parts.transpose(0, 1).reshape(value.shape)]


class BertPeer(Peer):
    """One training; bert_mistakes.py overrides what can be got wrong."""

    def __init__(self, config, samples, dtype=torch.float64):
        self.config, self.samples, self.dtype = config, samples, dtype
        self.model = self.build(config).to(dtype)
        self.rows = self.rows_here(dict(self.model.named_parameters()))
        parameters = [p for rows in self.rows.values() for p in rows.parameters]
        if len(parameters) != len(list(self.model.parameters())):
            raise Failed("a parameter of the peer has no name here")
        with torch.no_grad():
            for name, rows in self.rows.items():
                shape = self.values_of(rows).shape
                values = rows.there(initial_values(config, name, shape))
                for parameter, value in zip(rows.parameters, values, strict=True):
                    parameter.copy_(value)

    def values_of(self, rows):
        return rows.here([parameter.detach() for parameter in rows.parameters])

    @property
    def parameters(self):
        return {name: self.values_of(rows) for name, rows in self.rows.items()}

    def optimizer(self):
        rule = self.config["optimizer"]["rule"]
        groups = {True: [], False: []}
        for name, rows in self.rows.items():
            groups[self.decays(name)] += rows.parameters
        return torch.optim.AdamW(
            [{"params": groups[True], "weight_decay": rule["weight_decay"]},
             {"params": groups[False], "weight_decay": 0.0}],
            lr=self.config["lr"]["peak"], betas=(rule["beta1"], rule["beta2"]), eps=rule["eps"])

    def clip(self):
        bound = self.config["optimizer"]["clip"]
        return clip_grad_norm_(self.model.parameters(), bound).item()

    def tensors(self, optimizer):
        found = self.parameters
        for name, rows in self.rows.items():
            for theirs, ours in MOMENTS.items():
                values = [optimizer.state[parameter][ours] for parameter in rows.parameters]
                found[f"{name}/{theirs}"] = rows.here(values)
        return {name: tensor.double().numpy().copy() for name, tensor in found.items()}

    def loss(self, batch):
        words, order = self.logits(batch["tokens"], batch["segments"], self.seen(batch))
        return self.words_loss(words, batch) + self.order_loss(order, batch)

    def words_loss(self, logits, batch):
        masked = batch["loss_mask"] == 1
        return F.cross_entropy(logits[masked], batch["targets"][masked])

    def order_loss(self, logits, batch):
        return F.cross_entropy(logits, batch["label"].flatten())

    def seen(self, batch):
        """Which tokens are no padding."""
        return (batch["last"] >= 0).long()


class HuggingFace(BertPeer):
    def build(self, config):
        model = config["model"]
        return BertForPreTraining(BertConfig(
            vocab_size=model["vocab"], hidden_size=model["hidden"], layer_norm_eps=EPS,
            num_hidden_layers=model["layers"], num_attention_heads=model["heads"],
            intermediate_size=4 * model["hidden"], hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=config["batch"]["sequence_length"]))

    def rows_here(self, there):
        names = {"embedding.weight": "bert.embeddings.word_embeddings.weight",
                 "embedding.position": "bert.embeddings.position_embeddings.weight",
                 "embedding.segment": "bert.embeddings.token_type_embeddings.weight",
                 "head.bias": "cls.predictions.bias"}
        modules = {"embedding.norm": "bert.embeddings.LayerNorm",
                   "head.dense": "cls.predictions.transform.dense",
                   "head.dense_norm": "cls.predictions.transform.LayerNorm",
                   "head.pooler": "bert.pooler.dense",
                   "head.sentence_order": "cls.seq_relationship"}
        rows = {}
        for layer in range(self.config["model"]["layers"]):
            here, theirs = f"layers.{layer}.", f"bert.encoder.layer.{layer}."
            modules |= {f"{here}attention.proj": f"{theirs}attention.output.dense",
                        f"{here}attention_norm": f"{theirs}attention.output.LayerNorm",
                        f"{here}mlp.up": f"{theirs}intermediate.dense",
                        f"{here}mlp.down": f"{theirs}output.dense",
                        f"{here}mlp_norm": f"{theirs}output.LayerNorm"}
            for part in ("weight", "bias"):
                rows[f"{here}attention.qkv.{part}"] = Rows(*(
                    there[f"{theirs}attention.self.{of}.{part}"]
                    for of in ("query", "key", "value")))
        for here, theirs in modules.items():
            names |= {f"{here}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}
        return rows | {here: Rows(there[theirs]) for here, theirs in names.items()}

    def logits(self, tokens, segments, seen):
        found = self.model(tokens, token_type_ids=segments, attention_mask=seen)
        return found.prediction_logits, found.seq_relationship_logits


# Parts of a parameter's name there and here, in the order of replacing.
NAMES = (
    ("embedding.word_embeddings.weight", "embedding.weight"),
    ("embedding.position_embeddings.weight", "embedding.position"),
    ("embedding.tokentype_embeddings.weight", "embedding.segment"),
    ("encoder.final_layernorm", "head.norm"), ("encoder.layers.", "layers."),
    ("input_layernorm", "attention_norm"), ("pre_mlp_layernorm", "mlp_norm"),
    ("self_attention.linear_proj", "attention.proj"),
    ("self_attention.linear_qkv", "attention.qkv"), ("mlp.linear_fc1", "mlp.up"),
    ("mlp.linear_fc2", "mlp.down"), ("lm_head.dense", "head.dense"),
    ("lm_head.layer_norm", "head.dense_norm"), ("output_layer.bias", "head.bias"),
    ("binary_head", "head.sentence_order"), ("pooler.dense", "head.pooler"),
)


class Megatron(BertPeer):
    def build(self, config):
        from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
        from megatron.core.models.bert.bert_model import BertModel
        from megatron.core.transformer.transformer_config import TransformerConfig

        model = config["model"]
        settings = TransformerConfig(
            num_layers=model["layers"], hidden_size=model["hidden"], layernorm_epsilon=EPS,
            num_attention_heads=model["heads"], activation_func=F.gelu, hidden_dropout=0.0,
            attention_dropout=0.0, use_cpu_initialization=True, bias_dropout_fusion=False,
            bias_activation_fusion=False, gradient_accumulation_fusion=False,
            masked_softmax_fusion=False, persist_layer_norm=False)
        return BertModel(
            settings, 2, bert_layer_local_spec, vocab_size=model["vocab"],
            max_sequence_length=config["batch"]["sequence_length"],
            share_embeddings_and_output_weights=True)

    def rows_here(self, there):
        rows = {}
        for name, parameter in there.items():
            here = name
            for theirs, ours in NAMES:
                here = here.replace(theirs, ours)
            qkv = "linear_qkv" in name
            rows[here] = Heads(self.config["model"]["heads"], parameter) if qkv else Rows(parameter)
        return rows

    def logits(self, tokens, segments, seen):
        return self.model(tokens, seen, tokentype_ids=segments)


@contextlib.contextmanager
def megatron_on_cpu():
    """One rank, and nothing that asks for a device."""
    from megatron.core import parallel_state

    from megatron_ahead import without_cuda

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    parallel_state.initialize_model_parallel()
    without_cuda()
    yield
    torch.distributed.destroy_process_group()
