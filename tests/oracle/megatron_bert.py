"""The dataset `bert` with order = "megatron" against Megatron-Core's BERTMaskedWordPieceDataset: of
random corpora of sentences, every sample of the training and of the validation set has the same
text, types, labels, masks and order of its halves. Run by oracle.py; with --time, how much faster
ours is."""

import itertools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from megatron_data import Failed, run, same  # first: it quietens what follows

import numpy
import torch
from megatron.core.datasets.bert_dataset import (
    BERTMaskedWordPieceDataset,
    BERTMaskedWordPieceDatasetConfig,
)
from megatron.core.datasets.blended_megatron_dataset_builder import (
    BlendedMegatronDatasetBuilder,
)
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

TOKENS, PAD, CLS, SEP, MASK = 1000, 0, 2, 3, 4


class Pieces:
    """The tokenizer of sample_server.cpp, as much of it as a dataset asks for."""

    vocab_size, pad, cls, sep, mask, eos, eod = TOKENS, PAD, CLS, SEP, MASK, 1, 1
    inv_vocab = {i: f"##{i}" if i >= 5 and i % 3 == 0 else str(i) for i in range(TOKENS)}
    unique_identifiers = {"class": "Pieces"}


def write_corpus(prefix, rng, documents, longest):
    """Sentences of random tokens, special ones among them; some are empty, some too long."""
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=numpy.uint16)
    for number in range(documents):
        count = rng.choice((0, 1, 2, 2, 3, rng.randrange(2, 12), rng.randrange(2, 40)))
        lengths = [rng.choice((0, 1, rng.randrange(1, 12), rng.randrange(1, longest)))
                   for _ in range(count)]
        if count > 0 and number % 17 == 5:
            lengths[-1] = rng.choice((512, 513, 700))
        ids = [rng.choice((rng.randrange(5, TOKENS), rng.randrange(5, TOKENS), 6, 9,
                           rng.randrange(TOKENS))) for _ in range(sum(lengths))]
        if lengths:
            builder.add_document(torch.tensor(ids), lengths)
        else:
            builder.end_document()
    builder.finalize(f"{prefix}.idx")


def their_sets(case, folder):
    config = BERTMaskedWordPieceDatasetConfig(
        random_seed=case["seed"],
        sequence_length=case["length"],
        blend=(case["prefixes"], case["weights"]),
        split=case["split"],
        path_to_cache=str(folder / f"cache-{case['name']}"),
        tokenizer=Pieces(),
        masking_probability=case["mask"],
        short_sequence_probability=case["short"],
        masking_max_ngram=case["ngrams"],
        masking_do_full_word=True,
        masking_do_permutation=False,
        masking_use_longer_ngrams=False,
        masking_use_geometric_distribution=False,
        classification_head=case["pairs"],
    )
    # One sample is asked for, so one epoch: that is ours beside the training set.
    sizes = [case["samples"], 1, 1]
    return BlendedMegatronDatasetBuilder(BERTMaskedWordPieceDataset, sizes, lambda: True,
                                         config).build()


def arguments_of(case):
    values = case["prefixes"]
    if case["weights"] is not None:
        pairs = zip(case["weights"], case["prefixes"])
        values = [word for weight, prefix in pairs for word in (repr(weight), prefix)]
    keys = [f"path = {json.dumps(values)}", f'split = "{case["split"]}"', 'order = "megatron"',
            f"short_sequences = {case['short']}", f"mask_probability = {case['mask']}",
            f"ngrams = {case['ngrams']}", f"pairs = {json.dumps(case['pairs'])}"]
    return ["bert", "\n".join(keys), case["length"], case["seed"], case["samples"]]


def our_sets(server, case):
    lines = run(server, *arguments_of(case)).splitlines()
    sets = []
    while lines:
        size = int(lines.pop(0))
        samples, lines = lines[:size], lines[size:]
        sets.append([[[int(v) for v in field.split()] for field in line.split("|")]
                     for line in samples])
    return sets


def compare_sample(what, ours, theirs):
    tokens, segments, targets, mask, last, *order = ours
    masked = theirs["loss_mask"]
    same(f"{what}: text", tokens, theirs["text"].tolist())
    same(f"{what}: types", segments, theirs["types"].tolist())
    same(f"{what}: loss_mask", mask, masked.tolist())
    same(f"{what}: labels", targets, numpy.where(masked, theirs["labels"], 0).tolist())
    if order:  # label and label_mask
        same(f"{what}: is_random", order, [[theirs["is_random"]], [1]])
    end = len(tokens) - tokens[::-1].index(SEP)  # what follows is padding
    same(f"{what}: last", last, [end - 1] * end + [-1] * (len(tokens) - end))
    return sum(mask)


def compare(server, case, folder):
    theirs, ours = their_sets(case, folder), our_sets(server, case)
    compared, masked = 0, 0
    for name, here, there in zip(("train", "validation", "test"), ours, theirs):
        if case["weights"] is not None and name != "train":
            continue
        there_size = 0 if there is None else len(there)
        same(f"{case['name']} {name}: size", len(here), there_size)
        for ordinal in range(len(here)):
            what = f"{case['name']} {name} {ordinal}"
            masked += compare_sample(what, here[ordinal], there[ordinal])
        compared += len(here)
    if compared < 20 or 2 * masked < compared:
        raise Failed(f"{case['name']}: {compared} samples with {masked} masked tokens say little")
    return compared


def cases(prefixes):
    base = {"weights": None, "split": "90,10,0", "samples": 20, "mask": 0.15, "ngrams": 3,
            "short": 0.1, "length": 64, "seed": 1234, "pairs": True, "prefixes": prefixes[:1]}
    for seed, length, ngrams, short in itertools.product((0, 1234, 2**31 - 2), (64, 512), (1, 3),
                                                         (0.0, 0.1)):
        yield {**base, "seed": seed, "length": length, "ngrams": ngrams, "short": short,
               "name": f"seed {seed}, length {length}, n-grams {ngrams}, short {short}"}
    yield {**base, "name": "many epochs", "samples": 700}
    yield {**base, "name": "no pairs", "pairs": False, "samples": 200}
    yield {**base, "name": "no pairs of 512", "pairs": False, "length": 512}
    yield {**base, "name": "thirds", "split": "1,1,1", "samples": 100}
    yield {**base, "name": "small", "length": 8, "short": 1.0, "mask": 0.4}
    yield {**base, "name": "half short", "length": 33, "short": 0.5}
    yield {**base, "name": "much masked", "mask": 0.6, "ngrams": 11}
    yield {**base, "name": "long runs of words", "length": 512, "mask": 0.3, "ngrams": 150}
    yield {**base, "name": "blend", "prefixes": prefixes, "weights": [0.3, 0.5, 0.2],
           "samples": 400, "split": "100,0,0"}
    yield {**base, "name": "blend of ties", "prefixes": prefixes, "weights": [1.0, 1.0, 1.0],
           "samples": 300, "split": "100,0,0"}


def without_weights(server, prefixes, folder):
    """Neither side reads several files without weights: there, a mapping lacks its size."""
    case = {**next(cases(prefixes)), "prefixes": prefixes, "weights": None, "name": "no weights"}
    try:
        their_sets(case, folder)
    except TypeError as error:
        if "build_mapping" not in str(error):
            raise
    else:
        raise Failed("Megatron-Core reads files without weights now: compare them")
    try:
        our_sets(server, case)
    except Failed as error:
        if "3 files without weights" not in str(error):
            raise
    else:
        raise Failed("files without weights have samples here, and none there")


def corpora(folder):
    rng = random.Random(11)
    prefixes = []
    for number, (documents, longest) in enumerate(((60, 100), (25, 30), (15, 300))):
        prefixes.append(str(folder / f"corpus{number}"))
        write_corpus(prefixes[-1], rng, documents, longest)
    return prefixes


def measure(server, folder):
    """Of one thread, samples of 512 of one file, all of them full."""
    prefix, rng = folder / "large", random.Random(5)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=numpy.uint16)
    for _ in range(700):
        lengths = [rng.randrange(5, 45) for _ in range(60)]
        ids = [rng.randrange(5, TOKENS) for _ in range(sum(lengths))]
        builder.add_document(torch.tensor(ids), lengths)
    builder.finalize(f"{prefix}.idx")
    case = {"prefixes": [str(prefix)], "weights": None, "split": "1,0,0", "samples": 2000,
            "mask": 0.15, "ngrams": 3, "short": 0.1, "length": 512, "seed": 1, "pairs": True,
            "name": "time"}
    dataset = their_sets(case, folder)[0]
    begin = time.perf_counter()
    for ordinal in range(2000):
        dataset[ordinal]
    theirs = (time.perf_counter() - begin) / 2000 * 1e6
    ours = float(run(server, *arguments_of(case), "--time"))
    print(f"a sample of 512: {ours:.1f} us here, {theirs:.1f} us there: {theirs / ours:.0f} x")


def main():
    server = Path(sys.argv[1]).parent.parent / "tests/sample_server"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0,
                                             world_size=1)
        if "--time" in sys.argv:
            measure(server, folder)
        else:
            prefixes = corpora(folder)
            without_weights(server, prefixes, folder)
            compared = [compare(server, case, folder) for case in cases(prefixes)]
            print(f"{sum(compared)} samples of {len(compared)} cases are Megatron-Core's")
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))
