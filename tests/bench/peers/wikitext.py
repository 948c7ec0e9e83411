"""WikiText's windows by plain PyTorch, over a random GPT-2 that Tessera reads too.

wikitext.py write FOLDER VOCAB MERGES writes the model. wikitext.py eager|compiled|all FOLDER TEXT
WINDOW STRIDE BATCH THREADS DTYPE prints nats and the time of all batches but the first as JSON:
`eager` and `compiled` make the logits of the targets that a window scores, `all` makes all.
"""

import json
import shutil
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from torch.nn import functional as F

from gpt import Gpt
from loop import Shape

SHAPE = Shape(layers=6, hidden=384, heads=6, sequence=1024, vocabulary=50257, dropout=0.0)
NAMES = {"attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj", "mlp.up": "mlp.c_fc",
         "mlp.down": "mlp.c_proj", "norm1": "ln_1", "norm2": "ln_2"}


class Body(Gpt):
    """To the logits."""

    def forward(self, tokens):
        return self.norm(self.blocks(self.tokens(tokens) + self.positions[:tokens.shape[1]]))


def their_names():
    """Names in GPT-2's files by ours; linear weights are transposed there."""
    yield from (("tokens.weight", "wte.weight"), ("positions", "wpe.weight"))
    for part in ("weight", "bias"):
        yield f"norm.{part}", f"ln_f.{part}"
        for layer in range(SHAPE.layers):
            for ours, theirs in NAMES.items():
                yield f"blocks.{layer}.{ours}.{part}", f"h.{layer}.{theirs}.{part}"


def turned(name, tensor):
    return tensor.T.contiguous() if ".c_" in name and tensor.dim() == 2 else tensor.contiguous()


def write(folder, vocab, merges):
    torch.manual_seed(1)
    folder.mkdir()
    state = {name: torch.randn_like(tensor) * 0.1
             for name, tensor in Body(SHAPE).state_dict().items()}
    tensors = {theirs: turned(theirs, state[ours]) for ours, theirs in their_names()}
    save_file(tensors, folder / "model.safetensors")
    settings = {"model_type": "gpt2", "n_layer": SHAPE.layers, "n_embd": SHAPE.hidden,
                "n_head": SHAPE.heads, "n_positions": SHAPE.sequence,
                "vocab_size": SHAPE.vocabulary}
    (folder / "config.json").write_text(json.dumps(settings))
    shutil.copy(vocab, folder / "vocab.json")
    shutil.copy(merges, folder / "merges.txt")


def read(folder):
    tensors, model = load_file(folder / "model.safetensors"), Body(SHAPE)
    model.load_state_dict({ours: turned(theirs, tensors[theirs]) for ours, theirs in their_names()})
    return model.eval()


def windows(targets, window, stride):
    """Begin, end, and how many targets at the end of each are scored."""
    scored, begin = 0, 0
    while scored < targets:
        end = min(begin + window, targets)
        yield begin, end, end - scored
        scored, begin = end, begin + stride


def main():
    if sys.argv[1] == "write":
        return write(Path(sys.argv[2]), *sys.argv[3:])
    how, folder, text = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).read_text()
    window, stride, batch, threads = map(int, sys.argv[4:8])
    torch.set_num_threads(threads)
    model = read(folder)
    known = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    ids = torch.tensor(known.encode(text).ids)
    body = torch.compile(model) if how == "compiled" else model

    def score(some):
        longest = max(end - begin for begin, end, _ in some)
        rows = torch.zeros(batch, longest, dtype=torch.long)
        for row, (begin, end, _) in zip(rows, some):
            row[: end - begin] = ids[begin:end]
        hidden, total = body(rows), 0.0
        head = lambda x: F.linear(x, model.tokens.weight)
        logits = head(hidden) if how == "all" else None
        for i, (begin, end, count) in enumerate(some):
            last = slice(end - begin - count, end - begin)
            own = logits[i, last] if how == "all" else head(hidden[i, last])
            total += F.cross_entropy(
                own.float(), ids[end - count + 1:end + 1], reduction="sum").item()
        return total

    every, nats, taken = list(windows(len(ids) - 1, window, stride)), 0.0, {}
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, sys.argv[8] == "bf16"):
        for at in range(0, len(every), batch):
            if at == batch:
                begin, used = time.perf_counter(), time.process_time()
            nats += score(every[at:at + batch])
    taken = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - used}
    print(json.dumps({"nats": nats, "windows": len(every), **taken}))


if __name__ == "__main__":
    main()
