#!/usr/bin/env python3
"""Pieces of documents with the name of the file that they are from, for training and for measuring.

    examples/corpus/sources.py --pieces 800 train.jsonl test.jsonl python.jsonl perl.jsonl

Each line has "text" and "label". A fifth of the documents, chosen by a hash of their text, is for
measuring, so that no document has pieces in both files; of each source as many pieces are taken,
a few of each document.
"""

import argparse
import hashlib
import json
import random
from pathlib import Path

LENGTH = 500  # characters
OF_DOCUMENT = 4


def pieces(text, draws):
    """Some of a document, from the begin of a line on; with hardly a word they tell nothing."""
    begins = [0] + [i + 1 for i, c in enumerate(text) if c == "\n"]
    for at in sorted(draws.sample(begins, min(OF_DOCUMENT, len(begins)))):
        piece = text[at : at + LENGTH].strip()
        if sum(c.isalpha() for c in piece) >= LENGTH // 4:
            yield piece


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pieces", type=int, default=800, help="of each source for training [800]")
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("documents", type=Path, nargs="+", help="JSONL files; their names are kept")
    options = parser.parse_args()
    kinds = {"train": [], "test": []}
    wanted = {"train": options.pieces, "test": options.pieces // 4}
    for file in options.documents:
        draws = random.Random(file.stem)
        found, seen = {kind: [] for kind in kinds}, set()
        for line in file.open():
            text = json.loads(line)["text"]
            digest = hashlib.sha256(text.encode()).digest()
            if digest in seen:
                continue
            seen.add(digest)
            kind = "test" if digest[0] < 256 // 5 else "train"
            found[kind] += [{"text": piece, "label": file.stem} for piece in pieces(text, draws)]
        for kind, some in found.items():
            draws.shuffle(some)
            kinds[kind] += some[: wanted[kind]]
    for kind, file in (("train", options.train), ("test", options.test)):
        file.write_text("".join(json.dumps(piece) + "\n" for piece in kinds[kind]))
        print(f"{file}: {len(kinds[kind])} pieces")


if __name__ == "__main__":
    main()
