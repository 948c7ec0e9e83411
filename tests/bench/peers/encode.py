"""GPT-2's or BERT's ids of many documents by `tokenizers` and `tiktoken`, on one thread.

encode.py tokenizers|tokenizers_batch|tokenizers_fast|tiktoken FOLDER FILE IDS: prints the time as
JSON. FOLDER has GPT-2's vocab.json and merges.txt, or BERT's vocab.txt; documents of FILE end with
a zero byte; IDS becomes their ids (i32). Which of the three ways through `tokenizers` is the
fastest depends on its version.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
ALONE = {"add_special_tokens": False}


def tokenizers(folder):
    from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
    words = folder / "vocab.txt"
    if words.exists():
        return BertWordPieceTokenizer(str(words))._tokenizer
    return ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))._tokenizer


def encoder(how, folder):
    """A function from texts to lists of ids."""
    if how == "tiktoken":
        import tiktoken
        from tiktoken.load import data_gym_to_mergeable_bpe_ranks
        ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "merges.txt"),
                                                str(folder / "vocab.json"))
        encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks,
                                     special_tokens={"<|endoftext|>": 50256})
        return lambda texts: [encoding.encode_ordinary(text) for text in texts]
    known = tokenizers(folder)
    if how == "tokenizers_fast":
        return lambda texts: [one.ids for one in known.encode_batch_fast(texts, **ALONE)]
    if how == "tokenizers_batch":
        return lambda texts: [one.ids for one in known.encode_batch(texts, **ALONE)]
    return lambda texts: [known.encode(text, **ALONE).ids for text in texts]


def main():
    how, folder, file, out = sys.argv[1:]
    with open(file, "rb") as stream:
        texts = [text.decode() for text in stream.read().split(b"\0")[:-1]]
    encode, ids = encoder(how, Path(folder)), []
    begin, used = time.perf_counter(), time.process_time()
    for at in range(0, len(texts), 64):
        ids += encode(texts[at:at + 64])
    taken = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - used}
    numpy.concatenate([numpy.array(one, numpy.int32) for one in ids]).tofile(out)
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
