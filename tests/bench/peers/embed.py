"""Mean embeddings of the sentences of a JSONL file by transformers, in batches of 32.

embed.py MODEL FILE OUT THREADS: prints the time as JSON; OUT becomes the embeddings, in the order
of FILE.
"""

import json
import sys
import time
from pathlib import Path

from loop import IMPORTED_MIB
import quiet_transformers  # noqa: F401  first

import torch
from transformers import AutoTokenizer, BertModel

BATCH = 32


def main():
    folder, file, out, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    texts = [json.loads(line)["text"] for line in Path(file).read_text().splitlines()]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder)
    model.eval()

    @torch.inference_mode()
    def embed(some):
        batch = tokenizer(some, padding=True, truncation=True, max_length=512,
                          return_tensors="pt")
        mask = batch["attention_mask"][..., None].float()
        return (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)

    embed(texts[:BATCH])
    begin, used = time.perf_counter(), time.process_time()
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = [None] * len(texts)
    for at in range(0, len(order), BATCH):
        some = order[at : at + BATCH]
        for i, row in zip(some, embed([texts[i] for i in some])):
            found[i] = row
    taken = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - used}
    Path(out).write_text("".join(json.dumps({"embedding": row.tolist()}) + "\n" for row in found))
    print(json.dumps({**taken, "imported_mib": IMPORTED_MIB}))


if __name__ == "__main__":
    main()
