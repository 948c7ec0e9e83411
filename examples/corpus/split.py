#!/usr/bin/env python3
"""Holds documents back for measuring: a share of them, chosen by a hash of their text.

    examples/corpus/split.py --share 0.01 train.jsonl held-out.jsonl python.jsonl perl.jsonl

So equal documents are on one side, whatever their file and place; those held back are written
once. Documents that are only alike may be on both sides: let the stage `overlap` of
`tessera data build` cut out of the training documents what the others have too.
"""

import argparse
import hashlib
import json
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.01, help="that is held back [0.01]")
    parser.add_argument("train", type=Path)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("documents", type=Path, nargs="+")
    options = parser.parse_args()
    bound, seen = options.share * 2**64, set()
    counts, sizes = [0, 0], [0, 0]
    with options.train.open("w") as train, options.held_out.open("w") as held_out:
        for file in options.documents:
            for line in file.open():
                text = json.loads(line)["text"].encode()
                digest = hashlib.sha256(text).digest()
                held = int.from_bytes(digest[:8], "big") < bound
                if held and (digest in seen or not text.strip()):
                    continue
                if held:
                    seen.add(digest)
                (held_out if held else train).write(line)
                counts[held] += 1
                sizes[held] += len(text)
    if not all(counts):
        raise SystemExit(f"{counts[0]} documents for training, {counts[1]} held back: give another "
                         "share")
    for file, count, size in zip([options.train, options.held_out], counts, sizes):
        print(f"{file}: {count} documents, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
