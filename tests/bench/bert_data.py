"""Token files that rows of BERT in train_step.py train on: sentences of random tokens of BERT's
vocabulary, small ids more often, as Megatron-LM's --split-sentences has them."""

import random
import struct
from array import array

from processes import ROOT

FOLDER = ROOT / "build/bench-data/bert"
TOKENS, DOCUMENTS, SENTENCES, LONGEST = 30522, 64, 400, 32
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SETTINGS = {"data.type": "bert", "data.path": FOLDER / "tokens", "data.short_sequences": 0,
            "tokenizer.type": "wordpiece", "tokenizer.path": FOLDER / "vocab.txt"}


def make():
    """Once. Documents are long, so that hardly a sample has padding."""
    if (FOLDER / "tokens.idx").exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = [f"##{i}" if i % 3 == 0 else f"w{i}" for i in range(len(SPECIAL), TOKENS)]
    (FOLDER / "vocab.txt").write_text("\n".join([*SPECIAL, *words]) + "\n")
    draws = random.Random(7)
    count = DOCUMENTS * SENTENCES
    lengths = array("i", (draws.randint(4, LONGEST) for _ in range(count)))
    usual = TOKENS - len(SPECIAL)
    ids = array("H", (len(SPECIAL) + int(usual * draws.random() ** 3)
                      for _ in range(sum(lengths))))
    begins, begin = array("q"), 0
    for length in lengths:
        begins.append(begin)
        begin += ids.itemsize * length
    documents = array("q", range(0, count + 1, SENTENCES))
    (FOLDER / "tokens.bin").write_bytes(ids.tobytes())
    # Version 1, 16-bit tokens (8), and how many sentences and bounds of documents there are.
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, len(documents))
    tables = (lengths, begins, documents)
    (FOLDER / "tokens.idx").write_bytes(head + b"".join(table.tobytes() for table in tables))
