#!/usr/bin/env python3
"""Data and evaluation against their peers, alternating; medians of the rounds' ratios.

    tests/bench/data.py --only encode --lines python.jsonl
    tests/bench/data.py --only files --megatron DIR --vocab FILE --merges FILE
    tests/bench/data.py --only minhash --only samples --only attention --only step
    tests/bench/data.py --only wikitext

encode: GPT-2's ids against `tokenizers` and `tiktoken`. wordpiece: BERT's against `tokenizers`.
files: documents to token files against Megatron-LM's preprocess_data.py. minhash: near duplicates
against datasketch. samples: those of `indexed` against Megatron-Core's GPTDataset. attention: of 8
documents, and in a window, against all keys. padding: of samples that are half padding, against
full ones. step: with `indexed` against constant tokens. wikitext: windows that overlap against
PyTorch.

DIR is a checkout of Megatron-LM, tag v2.6, the last whose script needs no more than PyTorch and
three small packages; FILEs are GPT-2's vocabulary and merges. --lines is JSONL as
examples/corpus/documents.py writes it. Documents are 2 KB pieces of this Python's own sources.
`files` has --threads threads or workers, `minhash` one; memory is the largest sum over a side's
processes (PSS). With --processor, sides of one thread are compared by processor time.
"""

import argparse
import os
import tempfile
from pathlib import Path

from corpus import attention, encode, files, minhash, samples, step, wikitext
from processes import ROOT

PARTS = {"attention": attention.bench, "encode": encode.bench, "files": files.bench,
         "minhash": minhash.bench, "padding": attention.bench_padding, "samples": samples.bench,
         "step": step.bench, "wikitext": wikitext.bench, "wordpiece": encode.bench_wordpiece}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts")
    parser.add_argument("--megatron", type=Path, help="a checkout of Megatron-LM, tag v2.6")
    parser.add_argument("--vocab", type=Path, help="GPT-2's vocabulary, JSON")
    parser.add_argument("--merges", type=Path, help="GPT-2's merges")
    parser.add_argument("--lines", type=Path, help="documents, JSONL")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--minhash-megabytes", type=int, default=4)
    parser.add_argument("--processor", action="store_true", help="compare processor time")
    options = parser.parse_args()
    for name in ("megatron", "vocab", "merges", "lines"):
        if getattr(options, name):
            setattr(options, name, getattr(options, name).resolve())
    parts = options.only or list(PARTS)
    if "files" in parts and not (options.megatron and options.vocab and options.merges):
        parser.error("files needs --megatron, --vocab and --merges; see --only")
    os.chdir(ROOT)
    for part in parts:
        with tempfile.TemporaryDirectory() as name:
            PARTS[part](options, Path(name))


if __name__ == "__main__":
    main()
