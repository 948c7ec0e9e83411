"""The tokenizer gpt2 against the `tokenizers` package, over a vocabulary that is trained here.

A folder with random weights and that vocabulary is converted; `tessera generate --ids` then gives
the tokens of a text. Texts are those of the repository, contractions, and random characters. The
folder that `tessera convert` writes back gives AutoTokenizer of transformers the same tokens, and
so does a folder as transformers saves it, with tokenizer.json alone.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, ByteLevelBPETokenizer

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer, GPT2Tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
END = "<|endoftext|>"
LAYERS, WIDTH, POSITIONS = 1, 8, 16


class Failed(Exception):
    pass


def tessera(program, *words):
    result = subprocess.run([str(program), *map(str, words)], capture_output=True)
    if result.returncode != 0:
        raise Failed(f"{words[0]} ended with {result.returncode}: {result.stderr.decode()}")
    return result.stdout


def trained_vocabulary(folder):
    texts = [path.read_text() for path in sorted(ROOT.glob("*/README.md"))]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=1500, special_tokens=[END])
    tokenizer.save_model(str(folder))
    known = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    known.add_special_tokens([AddedToken(END, normalized=False)])
    return known


def write_model(folder, vocabulary):
    settings = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": 2}
    settings |= {"n_positions": POSITIONS, "vocab_size": vocabulary}
    (folder / "config.json").write_text(json.dumps(settings))
    shapes = {"wte.weight": (vocabulary, WIDTH), "wpe.weight": (POSITIONS, WIDTH)}
    for layer in range(LAYERS):
        linears = {"attn.c_attn": 3, "attn.c_proj": 1, "mlp.c_fc": 4}
        for name, times in linears.items():
            shapes[f"h.{layer}.{name}.weight"] = (WIDTH, times * WIDTH)
            shapes[f"h.{layer}.{name}.bias"] = (times * WIDTH,)
        shapes[f"h.{layer}.mlp.c_proj.weight"] = (4 * WIDTH, WIDTH)
        shapes[f"h.{layer}.mlp.c_proj.bias"] = (WIDTH,)
        for norm in ["ln_1", "ln_2"]:
            shapes |= {f"h.{layer}.{norm}.{part}": (WIDTH,) for part in ["weight", "bias"]}
    shapes |= {f"ln_f.{part}": (WIDTH,) for part in ["weight", "bias"]}
    generator = numpy.random.default_rng(1)
    tensors = {
        name: generator.normal(0, 0.1, shape).astype(numpy.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, folder / "model.safetensors")


def characters():
    """Assigned since long ago, so that no table of Unicode lacks them; no zero byte."""
    ranges = [(1, 0x250), (0x370, 0x530), (0x5D0, 0x5EB), (0x905, 0x93A), (0x1680, 0x1681)]
    ranges += [(0x2000, 0x2070), (0x20A0, 0x20AC), (0x2150, 0x2190), (0x3000, 0x3100)]
    ranges += [(0x4E00, 0x4F00), (0xAC00, 0xAD00), (0x1F600, 0x1F610)]
    every = [chr(code) for begin, end in ranges for code in range(begin, end)]
    return [c for c in every if unicodedata.category(c) not in ("Cn", "Cs")]


def texts():
    yield from [path.read_text() for path in sorted(ROOT.glob("tests/*/README.md"))]
    yield "I'll we've you're he'd it's don't I'm 'tis 'S 'LL o'clock''s"
    yield f"a{END} b{END}{END}c <|endoftext| |>"
    yield "  a   b\t\tc \n\n d\r\n   \u00a0 e \u3000\u3000f   "
    random.seed(3)
    pool = characters()
    for _ in range(60):
        yield "".join(random.choices(pool, k=random.randrange(1, 400)))
    for _ in range(60):
        yield "".join(random.choices(pool[:96] + [" ", " ", "\n", "'s", "12"], k=300))


SHORT = [f"the quick{END} fox", "  a   b\t\tc \n\n I'll we've 12 \u3000\u3000f"]


def there_and_back(program, theirs, ours):
    """The folder that is written is a tokenizer of transformers, and says what ends texts."""
    back = ours.parent / f"{ours.name}_back"
    tessera(program, "convert", "--from", ours, "--to", back)
    tokenizer, expected = AutoTokenizer.from_pretrained(back), AutoTokenizer.from_pretrained(theirs)
    for text in SHORT:
        if tokenizer(text).input_ids != expected(text).input_ids:
            raise Failed(f"AutoTokenizer reads {text!r} otherwise from what is written")
        if tokenizer.decode(tokenizer(text).input_ids) != text:
            raise Failed(f"AutoTokenizer does not give {text!r} back")
    written = json.loads((back / "config.json").read_text())
    end = expected.convert_tokens_to_ids(END)
    if written["eos_token_id"] != end or tokenizer.eos_token_id != end:
        raise Failed(f"the end of a text is {written['eos_token_id']}, not {end}")


def one_file(program, theirs, folder):
    """Checks what transformers 5 saves: one file. The model has a row for the token added."""
    saved = folder / "saved"
    vocab = json.loads((theirs / "vocab.json").read_text())
    lines = (theirs / "merges.txt").read_text().splitlines()
    merges = [tuple(line.split()) for line in lines if not line.startswith("#version")]
    tokenizer = GPT2Tokenizer(vocab=vocab, merges=merges)
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    tokenizer.save_pretrained(saved)
    if (saved / "vocab.json").exists():
        raise Failed("this version of transformers saves more than tokenizer.json")
    write_model(saved, len(tokenizer))
    tessera(program, "convert", "--from", saved, "--to", folder / "saved_ours")
    for text in [*SHORT, f"a<|pad|> <|pad|>{END}", "é<|pad", *list(texts())[:1]]:
        words = ["generate", "--checkpoint", folder / "saved_ours", "--prompt", text, "--ids"]
        if json.loads(tessera(program, *words)) != tokenizer(text).input_ids:
            raise Failed(f"tokenizer.json alone: other tokens of {text[:80]!r}")
    there_and_back(program, saved, folder / "saved_ours")
    # Where both forms are there they agree.
    for file in ["vocab.json", "merges.txt"]:
        shutil.copy(theirs / file, saved)
    tessera(program, "convert", "--from", saved, "--to", folder / "saved_both")


def main():
    program = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        theirs, ours = Path(name, "theirs"), Path(name, "ours")
        theirs.mkdir()
        tokenizer = trained_vocabulary(theirs)
        write_model(theirs, tokenizer.get_vocab_size())
        told = tessera(program, "convert", "--from", theirs, "--to", ours).decode()
        if "gpt2" not in told or "tokenizer.path" not in (ours / "model.toml").read_text():
            raise Failed(f"the tokenizer's files are not taken: {told}")
        count = 0
        for text in texts():
            words = ["generate", "--checkpoint", ours, "--prompt", text, "--ids"]
            ids = json.loads(tessera(program, *words))
            expected = tokenizer.encode(text).ids
            if ids != expected:
                at = next((i for i, (a, b) in enumerate(zip(ids, expected)) if a != b), None)
                raise Failed(f"token {at} of {text!r}: {ids[:at + 3]}, not {expected[:at + 3]}")
            count += len(ids)
        there_and_back(program, theirs, ours)
        one_file(program, theirs, Path(name))
        print(f"{count} tokens of {tokenizer.get_vocab_size()} kinds are those of tokenizers")
        words = ["generate", "--checkpoint", ours, "--prompt", "A plugin", "--tokens", "8"]
        if not tessera(program, *words).startswith(b"A plugin"):
            raise Failed("generate does not continue a text")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
