"""Samples of 256 tokens with masks and positions, against GPTDataset of Megatron-Core, of one token
file: 2 million tokens in documents of 20 to 400."""

import json

import processes

from corpus.measuring import in_turns, output, say_ratio

LENGTH, SEED, COUNT, TOKENS = 256, 1234, 2000, 2_000_000
KEYS = "reset_positions = true\nreset_attention = true\nmask_eod_loss = true"


def bench(options, folder):
    python, _ = processes.peer_python(megatron=True)
    peer, prefix = "tests/bench/peers/samples.py", folder / "tokens"
    output(python, peer, "write", prefix, TOKENS)

    def side(*words):
        def run():
            (folder / "store").unlink(missing_ok=True)
            taken = json.loads(output(*words).splitlines()[-1])
            return taken["processor" if options.processor else "seconds"] / COUNT * 1e6
        return run

    def ours(order):
        keys = f'path = ["{prefix}"]\nsplit = "1,0,0"\norder = "{order}"\n{KEYS}'
        return side(processes.BUILD / "bin/bench_corpus", "samples", keys, LENGTH, SEED, COUNT)

    def theirs(mask):
        return side(python, peer, prefix, LENGTH, SEED, COUNT, folder, mask)

    sides = {"tessera": ours("tessera"), "megatron": ours("megatron"),
             "GPTDataset": theirs("mask"), "GPTDataset without attention's mask": theirs("none")}
    name = f"a sample of {LENGTH}"
    taken = in_turns(options, name, sides, "µs")
    for order in ("tessera", "megatron"):
        for peer_side in list(sides)[2:]:
            say_ratio(name, taken, peer_side, order, 20)
