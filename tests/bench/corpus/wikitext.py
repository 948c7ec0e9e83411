"""`tessera eval wikitext` with windows that overlap, against PyTorch with the same windows: a GPT
of 6 layers, 384 wide, with GPT-2's vocabulary and random weights. What the first batch of windows
takes, with the start, is subtracted on both sides."""

import json
import re

import processes

from corpus.encode import vocabulary
from corpus.measuring import Timer, documents, in_turns, output, say_ratio

WINDOW, STRIDE, BATCH, BATCHES = 1024, 32, 8, 2
PEER = "tests/bench/peers/wikitext.py"
WAYS = ("eager", "compiled", "all")
COUNT = ("import sys; from tokenizers import ByteLevelBPETokenizer as B; "
         "print(len(B(*sys.argv[1:3]).encode(open(sys.argv[3]).read()).ids))")
TOLERANCES = {"fp32": 1e-5, "bf16": 1e-3}


def write_texts(folder, tokens_of):
    """Words of sources, which WikiText's replacements leave alone, for one and for all batches."""
    words = re.findall("[a-z]+", " ".join(documents(0.1)))
    files = {}
    for batches in (1, BATCHES):
        wanted, count = WINDOW + STRIDE * (BATCH * batches - 1) + 1, 0
        low, high = 0, len(words)
        while low < high:  # the fewest words with as many tokens
            count = (low + high) // 2
            low, high = (low, count) if tokens_of(words[:count]) >= wanted else (count + 1, high)
        files[batches] = folder / f"text{batches}"
        files[batches].write_text(" ".join(words[:low]))
    return files


def bench(options, folder):
    python, environment = processes.peer_python()
    theirs, ours = folder / "theirs", folder / "ours"
    files = vocabulary(options, folder, python)
    output(python, PEER, "write", theirs, files / "vocab.json", files / "merges.txt")
    output(processes.PROGRAM, "convert", "--from", theirs, "--to", ours)

    def tokens_of(words):
        text = folder / "words"
        text.write_text(" ".join(words))
        return int(output(python, "-c", COUNT, files / "vocab.json", files / "merges.txt", text))

    texts = write_texts(folder, tokens_of)
    threads = 1 if options.processor else 2
    for dtype in ("fp32", "bf16"):
        compare(options, dtype, threads, (python, environment), (theirs, ours), texts)


def compare(options, dtype, threads, peer, models, texts):
    (python, environment), (theirs, ours), nats = peer, models, {}
    key = "processor" if options.processor else "seconds"
    windows = BATCH * (BATCHES - 1)

    def tessera(batches):
        words = ["eval", "wikitext", "--checkpoint", ours, "--data", texts[batches], "--batch",
                 BATCH, "--window", WINDOW, "--stride", STRIDE, "--set",
                 f"device.threads={threads}", "--set", f'precision.compute="{dtype}"', "--json"]
        with Timer() as timer:
            found = json.loads(output(processes.PROGRAM, *words))
        if found["windows"] != BATCH * batches:
            raise SystemExit(f"{found['windows']} windows")
        nats["ours" if batches == BATCHES else "first"] = found["nats"]
        return timer.taken[key]

    def torch(how):
        words = [python, PEER, how, theirs, texts[BATCHES], WINDOW, STRIDE, BATCH, threads, dtype]
        found = json.loads(output(*words, environment=environment))
        nats[how] = found["nats"]
        if found["windows"] != BATCH * BATCHES:
            raise SystemExit(f"{found['windows']} windows of {how}")
        return found[key] / windows

    def difference():
        return (tessera(BATCHES) - tessera(1)) / windows

    sides = {"ours": difference, **{how: lambda how=how: torch(how) for how in WAYS}}
    name = f"a window of {WINDOW}, {dtype}"
    taken = in_turns(options, name, sides)
    print(f"{name}: nats {nats}")
    if any(abs(nats[how] - nats["ours"]) > TOLERANCES[dtype] * nats["ours"] for how in WAYS):
        raise SystemExit("the nats differ")
    for how in WAYS:
        say_ratio(name, taken, how, "ours", "1.5")
