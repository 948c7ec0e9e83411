#!/usr/bin/env python3
"""A real BERT, all-MiniLM-L6-v2, by Tessera and by transformers: rows of tokens and embeddings.

    $(tests/oracle/venv.sh) tests/oracle/real_bert.py build/bin/tessera FOLDER

The model is that of examples/corpus/minilm.py; FOLDER gets its files, or has them. Texts have 1, 37
and 128 tokens besides [CLS] and [SEP], in one batch, which transformers pads and Tessera packs; on
one rank and cut over tensor, pipeline and context. Also there and back: the same bytes. Run by
hand: half a minute of two cores.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/corpus"))
import minilm
from hugging_face import Failed
from hugging_face_bert import compare_rows, convert, their_rows

import tokenizers
from safetensors.torch import load_file
from transformers import BertModel

TEXT = Path("/usr/share/common-licenses/GPL-3")  # in every Debian
LENGTHS = (1, 37, 128)
LIMIT = 1e-4


def texts(tokenizer):
    """Words of one text, so many tokens each; besides them, one of each length between."""
    words = TEXT.read_text().split()
    found, at = [], 0
    for length in (*LENGTHS, 5, 64, 100):
        text = ""
        while len(tokenizer.encode(text, add_special_tokens=False).ids) < length:
            text = f"{text} {words[at]}".strip()
            at += 1
        while len(tokenizer.encode(text, add_special_tokens=False).ids) > length:
            text = text[:-1]
        found.append(text)
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM FOLDER")
    program, theirs = Path(sys.argv[1]), Path(sys.argv[2]).absolute()
    if not theirs.exists():
        minilm.download(theirs)
    tokenizer = tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = BertModel.from_pretrained(theirs).eval()
    lines = texts(tokenizer)
    ids = [tokenizer.encode(line).ids for line in lines]
    print(f"texts of {[len(one) for one in ids]} tokens")
    if [len(one) - 2 for one in ids[: len(LENGTHS)]] != list(LENGTHS):
        raise Failed("other lengths were wanted")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(convert(program, theirs, folder / "ours"))
        theirs_rows = {"padded": their_rows(model, ids),
                       "one by one": [their_rows(model, [one])[0] for one in ids]}
        compare_rows(program, folder / "ours", folder, lines, theirs_rows, LIMIT)
        print(convert(program, folder / "ours", folder / "back"))
        same_files(theirs / "model.safetensors", folder / "back/model.safetensors")


def same_files(theirs, back):
    there, here = load_file(theirs), load_file(back)
    there.pop("embeddings.position_ids", None)
    here = {name.removeprefix("bert."): tensor for name, tensor in here.items()}
    if there.keys() != here.keys():
        raise Failed(f"other tensors come back: {there.keys() ^ here.keys()}")
    if not all(here[name].equal(tensor) for name, tensor in there.items()):
        raise Failed("other values come back")
    print("there and back: the same bits")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
