"""Converts BERTs of Hugging Face transformers to Tessera and back, as hugging_face.py does GPT-2.

Every class of them with random weights: the same bits and keys there and back; the rows of all
tokens as transformers computes them, of short texts and long ones, packed into samples, on one
rank and cut over tensor, pipeline and context.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from hugging_face import Failed, check, one_thread, same_bits, tessera

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BertConfig

ROWS = 2e-5  # largest difference, where rows are of size 3: both sides are in FP32
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [chr(97 + i) for i in range(26)]
TOKENS = SPECIAL + LETTERS + [f"##{letter}" for letter in LETTERS]
POSITIONS = 24
LAYOUTS = {
    "1 rank": [],
    "tensor 2": ["--ranks", 2, "--set", "parallel.tensor=2"],
    "pipeline 2": ["--ranks", 2, "--set", "parallel.pipeline=2"],
    "context 2": ["--ranks", 2, "--set", "parallel.context=2"],
}
# Class, keys beside those of config(), and what convert says that the files lack and have.
POOLER = ["head.pooler.bias", "head.pooler.weight"]
ORDER = ["head.sentence_order.bias", "head.sentence_order.weight"]
WORDS = ["head.bias", "head.dense.bias", "head.dense.weight", "head.dense_norm.bias",
         "head.dense_norm.weight"]
CLASSES = [
    ("BertForPreTraining", {}, [], []),
    ("BertForPreTraining", {"layer_norm_eps": 1e-3, "intermediate_size": 80}, [], []),
    ("BertForMaskedLM", {"type_vocab_size": 3}, POOLER + ORDER, []),
    ("BertModel", {}, WORDS + ORDER, POOLER),
    ("BertForSequenceClassification", {"num_labels": 3, "classifier_dropout": 0.25}, [], []),
    ("BertForMultipleChoice", {}, [], []),
    ("BertForQuestionAnswering", {}, [], []),
]


def config(**more):
    return BertConfig(**{"vocab_size": len(TOKENS), "hidden_size": 48, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "intermediate_size": 192,
                         "max_position_embeddings": POSITIONS, "pad_token_id": 0, **more})


def random_model(seed, name, more, **arguments):
    torch.manual_seed(seed)
    model = getattr(transformers, name)(config(**more), **arguments).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            norm = "LayerNorm" in parameter_name and "weight" in parameter_name
            parameter.normal_(1.0 if norm else 0.0, 0.15)
    return model


def saved(model, folder):
    """With a tokenizer's vocab.txt beside it."""
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    return folder


def convert(program, source, target, *words):
    """What it says."""
    command = [str(program), "convert", "--from", str(source), "--to", str(target), *words]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = " ".join(result.stdout.split())
    if result.returncode != 0:
        raise Failed(f"{source} was not converted: {said}")
    return said


def texts(lengths):
    """A text of so many tokens each, with [CLS] and [SEP]."""
    found = []
    for length in lengths:
        letters = [LETTERS[(7 * i * i + i // 5 + length) % 26] for i in range(length - 2)]
        found.append("".join(letter + (" " if i % 3 == 2 else "")
                             for i, letter in enumerate(letters)))
    return found


def ids_of(text):
    ids = [SPECIAL.index("[CLS]")]
    for word in text.split():
        ids += [TOKENS.index(letter if i == 0 else f"##{letter}") for i, letter in enumerate(word)]
    return ids + [SPECIAL.index("[SEP]")]


def their_rows(body, batch):
    """Of token ids, padded to one batch: the rows of each."""
    longest = max(map(len, batch))
    tokens = torch.tensor([ids + [0] * (longest - len(ids)) for ids in batch])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch])
    with torch.no_grad():
        rows = body(tokens, attention_mask=mask).last_hidden_state
    return [rows[i, :len(ids)] for i, ids in enumerate(batch)]


def our_rows(program, checkpoint, folder, lines, pooling, *words):
    data = folder / "texts.jsonl"
    data.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    printed = tessera(program, "eval", "embed", "--checkpoint", checkpoint, "--data", data,
                      "--pooling", pooling, *words)
    return [torch.tensor(json.loads(line)["embedding"]) for line in printed.splitlines()]


def compare_rows(program, checkpoint, folder, lines, theirs, limit=ROWS):
    """`theirs`: by what it is told as, the rows of each text, [tokens, hidden]."""
    for layout, words in LAYOUTS.items():
        ours = {of: our_rows(program, checkpoint, folder, lines, of, *words)
                for of in ("none", "mean", "cls")}
        for what, rows in theirs.items():
            if [len(one) for one in ours["none"]] != [len(one) for one in rows]:
                raise Failed(f"rows of {[len(one) for one in ours['none']]} tokens ({layout})")
            wanted = {"none": rows, "mean": [one.mean(0) for one in rows],
                      "cls": [one[0] for one in rows]}
            worst = [float((a - b).abs().max()) for of, found in ours.items()
                     for a, b in zip(found, wanted[of], strict=True)]
            check(f"rows, mean and first ({what}, {layout})", max(worst), limit)


def one_class(program, folder, seed, name, more, lacking, kept):
    model = random_model(seed, name, more)
    saved(model, folder / "theirs")
    said = convert(program, folder / "theirs", folder / "ours")
    lacks, _, has = said.partition(" it has ")
    if names_in(lacks) != sorted(lacking) or names_in(has) != sorted(kept):
        raise Failed(f"{name}: {said}")
    convert(program, folder / "ours", folder / "back")
    back = getattr(transformers, name).from_pretrained(folder / "back")
    same_bits(model, back)
    same_keys(folder)
    batch = texts([3, 4, 9, 24, 24, 17, 5])
    body = model if name == "BertModel" else model.bert
    theirs = their_rows(body, [ids_of(text) for text in batch])
    compare_rows(program, folder / "ours", folder, batch, {name: theirs})


def names_in(text):
    return sorted(re.findall(r"(?<!\.)\bhead\.[a-z_.]+[a-z]", text))


def same_keys(folder):
    there, back = (json.loads((folder / name / "config.json").read_text())
                   for name in ("theirs", "back"))
    if there["architectures"] != back["architectures"]:
        raise Failed(f"{there['architectures']} come back as {back['architectures']}")
    for key, value in back.items():
        if key in ("torch_dtype", "model_type", "architectures"):
            continue
        if key == "classifier_dropout" and there[key] is None:
            there[key] = there["hidden_dropout_prob"]  # what null means
        if there.get(key) != value:
            raise Failed(f"config.json has {key} = {there.get(key)}, and {value} comes back")


def older_files(program, folder):
    """Norms with TensorFlow's names, numbers of positions, and the bias under its other name."""
    model = random_model(20, "BertForPreTraining", {})
    saved(model, folder / "older")
    file = folder / "older/model.safetensors"
    tensors = load_file(file)
    renamed = {}
    for name, tensor in tensors.items():
        if name.endswith(("LayerNorm.weight", "LayerNorm.bias")):
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        if name != "cls.predictions.bias":
            renamed[name] = tensor
    renamed["bert.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    renamed["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    renamed["cls.predictions.decoder.weight"] = \
        tensors["bert.embeddings.word_embeddings.weight"].clone()
    save_file(renamed, str(file), {"format": "pt"})
    convert(program, folder / "older", folder / "older_ours")
    convert(program, folder / "older_ours", folder / "older_back")
    same_bits(model, transformers.BertForPreTraining.from_pretrained(folder / "older_back"))
    print("older names: the same bits")

    renamed["cls.predictions.decoder.weight"] += 1
    save_file(renamed, str(file), {"format": "pt"})
    refused(program, folder / "older", 'makes "cls.predictions.decoder.weight" a second name of '
            '"bert.embeddings.word_embeddings.weight", but the files hold other values there')


def without_pooler(program, folder):
    model = random_model(21, "BertModel", {}, add_pooling_layer=False)
    saved(model, folder / "bare")
    said = convert(program, folder / "bare", folder / "bare_ours")
    if "head.pooler.weight" not in said or "it has" in said:
        raise Failed(f"without a pooler: {said}")
    convert(program, folder / "bare_ours", folder / "bare_back")
    tensors = load_file(folder / "bare_back/model.safetensors")
    if any("pooler" in name or "cls" in name for name in tensors):
        raise Failed(f"what the files lacked comes back: {sorted(tensors)}")


def refused(program, source, reason):
    try:
        said = convert(program, source, source.parent / "no")
    except Failed as failure:
        if reason not in str(failure):
            raise
        return
    raise Failed(f"{source} was converted, and not {reason}: {said}")


def refusals(program, folder):
    source = saved(random_model(22, "BertModel", {}), folder / "refused")
    written = json.loads((source / "config.json").read_text())
    file = source / "model.safetensors"
    for key, value in [("hidden_act", "relu"), ("hidden_act", "gelu_new"), ("is_decoder", True),
                       ("position_embedding_type", "relative_key"), ("add_cross_attention", True),
                       ("tie_word_embeddings", False), ("embedding_size", 64)]:
        (source / "config.json").write_text(json.dumps({**written, key: value}))
        refused(program, source, key)
    for name in ("BertLMHeadModel", "BertForTokenClassification"):
        (source / "config.json").write_text(json.dumps({**written, "architectures": [name]}))
        refused(program, source, f'architectures = ["{name}"]')
    (source / "config.json").write_text(json.dumps(written))
    tensors = load_file(file)
    left = tensors.pop("pooler.dense.bias")
    save_file({**tensors, "encoder.layer.0.other": left}, str(file), {"format": "pt"})
    refused(program, source, "encoder.layer.0.other")
    tensors.pop("encoder.layer.1.output.dense.bias")
    save_file(tensors, str(file), {"format": "pt"})
    refused(program, source, '"bert.encoder.layer.1.output.dense.bias" is missing')
    if (folder / "no").exists():
        raise Failed("a refused conversion leaves something")


def main():
    one_thread()
    program = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        for seed, case in enumerate(CLASSES):
            folder = Path(name, str(seed))
            folder.mkdir()
            one_class(program, folder, seed, *case)
        older_files(program, Path(name))
        without_pooler(program, Path(name))
        refusals(program, Path(name))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
