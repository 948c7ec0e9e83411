"""Converts Llamas of Hugging Face transformers to Tessera and back, as hugging_face.py does GPT-2.

They have two layers and random weights; keys and values have fewer heads than queries.
"""

import json
import sys
import tempfile
from pathlib import Path

from hugging_face import Failed, compare_logits, one_model, same_bits, same_function, tessera, words

import torch
from transformers import LlamaConfig, LlamaForCausalLM

POSITIONS = 24
DEFAULT = {"rope_type": "default", "rope_theta": 500.0}
SCALED = {
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 12,
    },
    "yarn": {"factor": 2.0, "original_max_position_embeddings": 12},
    "yarn with all": {
        "factor": 2.0,
        "original_max_position_embeddings": 12,
        "beta_fast": 8.0,
        "beta_slow": 2.0,
        "attention_factor": 1.25,
    },
}


def random_llama(seed, **settings):
    torch.manual_seed(seed)
    usual = {
        "vocab_size": 300,
        "max_position_embeddings": POSITIONS,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "rope_parameters": dict(DEFAULT),
    }
    config = LlamaConfig(**{**usual, **settings})
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.15)
    return model


def earlier_spelling(folder):
    """Rewrites config.json as transformers 4 had it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **rope}
    config["head_dim"] = None
    path.write_text(json.dumps(config))


def kinds_of_positions(program, folder):
    for name, numbers in SCALED.items():
        here = folder / name.replace(" ", "_")
        here.mkdir()
        rope = {**DEFAULT, "rope_type": name.split(" ")[0], **numbers}
        model = random_llama(11, rope_parameters=rope, tie_word_embeddings=True)
        model.save_pretrained(here / "theirs")
        tessera(program, "convert", "--from", here / "theirs", "--to", here / "ours")
        compare_logits(program, here / "ours", model, f"logits ({name})")
        earlier_spelling(here / "theirs")
        tessera(program, "convert", "--from", here / "theirs", "--to", here / "ours2")
        if (here / "ours/model.toml").read_text() != (here / "ours2/model.toml").read_text():
            raise Failed(f"{name}: the two spellings differ")
        tessera(program, "convert", "--from", here / "ours", "--to", here / "back")
        back = LlamaForCausalLM.from_pretrained(here / "back").eval()
        same_bits(model, back)
        same_function(model, back, name)


def refusals(program, folder):
    for key, value, reason in [
        ("hidden_act", "gelu", 'has hidden_act = "gelu"; only "silu" is supported'),
        ("pretraining_tp", 2, "has pretraining_tp = 2; only 1 is supported"),
    ]:
        there = folder / key
        random_llama(12).save_pretrained(there)
        config = json.loads((there / "config.json").read_text())
        (there / "config.json").write_text(json.dumps({**config, key: value}))
        try:
            tessera(program, "convert", "--from", there, "--to", folder / "no")
        except Failed as failure:
            if reason not in str(failure):
                raise
        else:
            raise Failed(f"{key} = {value} was converted")


def main():
    program = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        for seed, settings in enumerate(
            [
                {},
                {"tie_word_embeddings": True, "rms_norm_eps": 1e-3},
                {"head_dim": 12, "attention_bias": True, "mlp_bias": True},
            ]
        ):
            folder = Path(name, str(seed))
            folder.mkdir()
            one_model(program, folder, random_llama(seed, **settings), words(settings))
        kinds_of_positions(program, Path(name))
        refusals(program, Path(name))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
