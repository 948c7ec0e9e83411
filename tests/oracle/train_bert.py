"""A BERT with transformers and with Tessera, norms after the sums; then with Megatron-Core, norms
before the sub-layers. Run by oracle.py."""

import random
import sys
from pathlib import Path

import bert_mistakes
from bert_peer import HuggingFace, Megatron, Samples, megatron_on_cpu
from compare import DOUBLE, HERE, Case, Trial, compare_all, mistakes_of, run
from megatron_bert import TOKENS, Pieces, write_corpus
from megatron_data import run as serve

SERVER = Path(sys.argv[1]).parent.parent / "tests/sample_server"
REFERENCE = {"device.type": "reference"}
DOUBLES = {**REFERENCE, "precision.compute": "fp64", "precision.main": "fp64"}
CPU = "cpu, fp32"


def write(folder):
    """A corpus, and the samples of the training as Tessera's dataset has them."""
    folder.mkdir()
    write_corpus(folder / "corpus", random.Random(11), documents=40, longest=30)
    words = [Pieces.inv_vocab[i] for i in range(TOKENS)]
    for text, at in (("[PAD]", 0), ("[UNK]", 1), ("[CLS]", 2), ("[SEP]", 3), ("[MASK]", 4)):
        words[at] = text
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = TRIAL.config()
    data, batch = config["data"], config["batch"]
    keys = "\n".join([f'path = "{folder / "corpus"}"', f'split = "{data["split"]}"',
                      f'order = "{data["order"]}"', f'short_sequences = {data["short_sequences"]}'])
    lines = serve(SERVER, "bert", keys, batch["sequence_length"], config["run"]["seed"],
                  batch["global"] * config["run"]["steps"]).splitlines()
    sets = []
    while lines:
        size = int(lines[0])
        sets.append([[[int(v) for v in field.split()] for field in line.split("|")]
                     for line in lines[1 : size + 1]])
        lines = lines[size + 1 :]
    return Samples(*sets[:2])


def check_training(peer, record):
    """That this training exercises what it claims to."""
    config = peer.config
    bound = config["optimizer"]["clip"]
    assert min(record.norms) < bound < max(record.norms), f"clipped and others: {record.norms}"
    assert config["model"]["vocab"] % config["model"]["vocab_multiple"], "a padded vocabulary"
    count = config["batch"]["global"] * config["run"]["steps"]
    batch = peer.samples.train(0, count)
    ends = (batch["last"] >= 0).sum(-1)
    assert (ends < config["batch"]["sequence_length"]).sum() > count // 4, "padding"
    assert 0 < batch["label"].sum() < count, "both orders"
    assert len(set(batch["loss_mask"].sum(-1).tolist())) > 2, "other numbers of masked tokens"


def trial(files, peer, mistakes):
    cases = [
        Case("reference, fp64", DOUBLES, DOUBLE, ("double",)),
        Case(CPU, {"device.type": "cpu"}),
        Case("cpu, fp32, tensor 2 x data 3",
             {"device.type": "cpu", "parallel.tensor": 2, "parallel.data": 3}),
        Case("cpu, fp32, context 2 x pipeline 2",
             {"device.type": "cpu", "parallel.context": 2, "parallel.pipeline": 2,
              "schedule.type": "1f1b"}),
    ]
    return Trial([HERE / name for name in files], peer, cases, mistakes, CPU, write,
                 {"data.path": "corpus", "tokenizer.path": "vocab.txt"}, check_training)


TRIAL = trial(["bert.toml"], HuggingFace, mistakes_of(bert_mistakes, HuggingFace))
PRE = trial(["bert.toml", "bert_pre.toml"], Megatron, [])


def more(program, folder):
    samples = write(folder / "again")
    inner = folder / "pre"
    inner.mkdir()
    (inner / "text").symlink_to(folder / "text")
    print("\nMegatron-Core's BertModel")
    with megatron_on_cpu():
        return compare_all(program, PRE, samples, inner)[0]


if __name__ == "__main__":
    run(TRIAL, more)
