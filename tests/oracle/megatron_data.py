"""Token files and the dataset `indexed` against Megatron-Core: files of either are read and written
alike by the other, and with order = "megatron" every sample of random corpora is the same, with its
masks and positions. Ids are unique in a corpus but for the end of a document, so equal samples mean
equal document, sample, shuffle and blend indices; those of some cases are compared as arrays too.
Run by oracle.py."""

import json
import logging
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy  # noqa: E402
import torch  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import (  # noqa: E402
    BlendedMegatronDatasetBuilder,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig  # noqa: E402
from megatron.core.datasets.indexed_dataset import (  # noqa: E402
    IndexedDataset,
    IndexedDatasetBuilder,
)

TYPES = ["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"]
EOD, PAD = 3, 5  # PAD is no id of a corpus


class Failed(Exception):
    pass


class Ids:
    """As much of a tokenizer as a dataset asks for."""

    vocab_size, eod, pad = 1 << 20, EOD, PAD
    unique_identifiers = {"class": "Ids"}


def run(program, *words):
    result = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{words[:3]} ended with {result.returncode}: {result.stderr}")
    return result.stdout


def write_corpus(prefix, lengths, first, dtype=numpy.int32):
    """One document for each length; each ends with EOD, other ids count on."""
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    for length in lengths:
        ids = list(range(first, first + length))
        first += length
        if ids:
            ids[-1] = EOD
            builder.add_document(torch.tensor(ids), [length])
        else:
            builder.end_document()
    builder.finalize(f"{prefix}.idx")


def same(what, ours, theirs):
    if ours != theirs:
        raise Failed(f"{what}: {str(ours)[:300]} here, {str(theirs)[:300]} there")


def check_files(program, folder):
    """`tessera data merge` and `split` write what IndexedDatasetBuilder writes, of each type."""
    for name in TYPES:
        dtype = getattr(numpy, name)
        a, b, ours, theirs = (folder / f"{name}-{part}" for part in "abct")
        write_corpus(a, [3, 0, 1, 7], 10, dtype)
        write_corpus(b, [2, 60, 0], 30, dtype)
        builder = IndexedDatasetBuilder(f"{theirs}.bin", dtype=dtype)
        builder.add_index(str(a))
        builder.add_index(str(b))
        builder.finalize(f"{theirs}.idx")
        run(program, "data", "merge", ours, a, b)
        for end in (".idx", ".bin"):
            same(f"{name}{end}", Path(f"{ours}{end}").read_bytes(),
                 Path(f"{theirs}{end}").read_bytes())
        read = IndexedDataset(str(ours))
        facts = json.loads(run(program, "data", "show", ours, "--json"))
        same(f"{name}: sequences", facts["sequences"], len(read))
        same(f"{name}: tokens", facts["tokens"], int(read.sequence_lengths.sum()))
        ids = [int(word) for word in run(program, "data", "show", ours, "--document", 5).split()]
        same(f"{name}: a document", ids, [int(i) for i in read[4]])
        halves = [folder / f"{name}-{part}" for part in ("first", "last")]
        run(program, "data", "split", ours, "--shares", "4,3", *halves)
        same(f"{name}: a half", Path(f"{halves[0]}.idx").read_bytes(),
             Path(f"{a}.idx").read_bytes())
        run(program, "data", "verify", ours)
    multimodal(program, folder)


def multimodal(program, folder):
    prefix, merged = folder / "modes", folder / "modes-merged"
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=numpy.int32, multimodal=True)
    builder.add_document(torch.arange(9), [4, 5], [0, 1])
    builder.add_document(torch.arange(3), [3], [1])
    builder.finalize(f"{prefix}.idx")
    run(program, "data", "merge", merged, prefix)
    same("modes", Path(f"{merged}.idx").read_bytes(), Path(f"{prefix}.idx").read_bytes())


def their_sets(case, folder):
    config = GPTDatasetConfig(
        random_seed=case["seed"],
        sequence_length=case["length"],
        blend=(case["prefixes"], case["weights"]),
        split=case["split"],
        path_to_cache=str(folder / f"cache-{case['name']}"),
        tokenizer=Ids(),
        reset_position_ids=case["apart"],
        reset_attention_mask=case["apart"],
        eod_mask_loss=case["apart"],
        drop_last_partial_validation_sequence=not case["tail"],
    )
    # Our sets beside the training set are one epoch; there a blend has to have a size.
    sizes = [case["samples"], None, None]
    if case["weights"] is not None:
        sizes = [case["samples"], 0, 0]
    return BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()


def our_sets(server, case):
    values = case["prefixes"]
    if case["weights"] is not None:
        pairs = zip(case["weights"], case["prefixes"])
        values = [word for weight, prefix in pairs for word in (repr(weight), prefix)]
    keys = [f"path = {json.dumps(values)}", f'split = "{case["split"]}"', 'order = "megatron"']
    if case["apart"]:
        keys += ["reset_positions = true", "reset_attention = true", "mask_eod_loss = true"]
    if case["tail"]:
        keys.append("validation_tail = true")
    lines = run(server, "indexed", "\n".join(keys), case["length"], case["seed"],
                case["samples"]).splitlines()
    sets = []
    while lines:
        size = int(lines.pop(0))
        samples, lines = lines[:size], lines[size:]
        sets.append([[[int(v) for v in field.split()] for field in line.split("|")]
                     for line in samples])
    return sets


def compare_sample(what, case, ours, theirs):
    pads = [i for i, mask in enumerate(ours[2]) if not mask and ours[0][i] == 0]
    same(f"{what}: tokens", ours[0], theirs["tokens"].tolist())
    same(f"{what}: targets", ours[1], theirs["labels"].tolist())
    same(f"{what}: loss_mask", ours[2], [int(v) for v in theirs["loss_mask"]])
    if not case["apart"] or pads:
        return
    _, _, _, positions, first, last = ours
    same(f"{what}: positions", positions, theirs["position_ids"].tolist())
    hidden = theirs["attention_mask"][0].tolist()
    length = case["length"]
    seen = [[not (first[i] <= j <= min(i, last[i])) for j in range(length)] for i in range(length)]
    same(f"{what}: attention", seen, hidden)


def compare(server, case, folder):
    theirs, ours = their_sets(case, folder), our_sets(server, case)
    compared = 0
    for name, here, there in zip(("train", "validation", "test"), ours, theirs):
        if case["weights"] is not None and name != "train":
            continue
        there_size = 0 if there is None else len(there)
        same(f"{case['name']} {name}: size", len(here), there_size)
        for ordinal in range(len(here)):
            compare_sample(f"{case['name']} {name} {ordinal}", case, here[ordinal], there[ordinal])
        compared += len(here)
    return compared


def corpora(folder, rng):
    """Some corpora of random documents, empty and long ones among them."""
    prefixes, first = [], 100
    for number in range(4):
        count = (40, 7, 90, 25)[number]
        lengths = [rng.choice((0, 1, 2, rng.randrange(3, 60), rng.randrange(3, 300)))
                   for _ in range(count)]
        lengths[0] = max(lengths[0], 40)  # each has a sample
        prefix = folder / f"corpus{number}"
        write_corpus(prefix, lengths, first)
        first += sum(lengths)
        prefixes.append(str(prefix))
    return prefixes


def cases(prefixes, rng, tokens):
    base = {"seed": 1234, "length": 16, "weights": None, "split": "98,2,0", "apart": True,
            "tail": False}
    one = {**base, "prefixes": prefixes[:1]}
    epoch = tokens[0] // 16  # about the samples of an epoch
    yield {**one, "name": "one epoch", "samples": epoch // 2}
    yield {**one, "name": "many epochs", "samples": 7 * epoch}
    for share in (0.05, 0.3, 0.6, 0.75, 0.85, 0.99):
        name = f"two epochs and {share}"
        yield {**one, "name": name, "samples": int((2 + share) * epoch), "seed": rng.randrange(99)}
    yield {**one, "name": "thirds", "split": "1,1,1", "samples": epoch}
    yield {**one, "name": "halves", "split": "1,1", "samples": 3 * epoch, "apart": False}
    yield {**one, "name": "tail", "split": "60,40", "samples": 9, "tail": True}
    yield {**one, "name": "small seed", "seed": 0, "samples": epoch}
    yield {**one, "name": "large seed", "seed": 2**32 - 1, "samples": epoch}
    yield {**base, "prefixes": prefixes[:3], "name": "no weights", "samples": 30, "split": "1,0,0"}
    # Over there a set without a token is looked for in ever more epochs, so there is none here.
    three = {**base, "prefixes": prefixes[:3], "split": "100,0,0"}
    yield {**three, "name": "blend", "weights": [0.3, 0.5, 0.2], "samples": 200}
    yield {**three, "name": "blend of ties", "weights": [1.0, 1.0, 1.0], "samples": 300}
    yield {**three, "name": "long blend", "weights": [0.01, 2.5, 7.0], "samples": 3000}
    yield {**three, "name": "blend of thirds", "weights": [3.0, 1.0, 1.7], "samples": 150,
           "split": "1,1,1"}
    many = {**three, "prefixes": [prefixes[i % 4] for i in range(11)]}
    yield {**many, "name": "blend of eleven", "samples": 500,
           "weights": [rng.uniform(0.1, 3) for _ in range(11)]}


def check_orders(server, folder):
    rng = random.Random(7)
    prefixes = corpora(folder, rng)
    files = [IndexedDataset(prefix) for prefix in prefixes]  # their arrays end with them
    tokens = [int(file.sequence_lengths.sum()) for file in files]
    compared = {case["name"]: compare(server, case, folder)
                for case in cases(prefixes, rng, tokens)}
    if min(compared.values()) == 0 or sum(compared.values()) < 200:
        raise Failed(f"too little was compared: {compared}")
    return compared


def main():
    program = Path(sys.argv[1])
    server = program.parent.parent / "tests/sample_server"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0,
                                             world_size=1)
        check_files(program, folder)
        compared = check_orders(server, folder)
        torch.distributed.destroy_process_group()
    print(f"files of {len(TYPES)} types and {sum(compared.values())} samples of {len(compared)} "
          "cases are Megatron-Core's")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))
