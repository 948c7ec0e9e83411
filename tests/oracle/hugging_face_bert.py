"""Converts BERTs of Hugging Face transformers to Tessera and back, as hugging_face.py does GPT-2.

Every class of them with random weights: the same bits and keys there and back; the rows of all
tokens as transformers computes them, of short texts and long ones, packed into samples, on one
rank and cut over tensor, pipeline and context; the logits of classes, choices and spans that
`tessera eval --scores` writes for small files of their tasks.
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
SCORES = 1e-5  # of logits of size 1 to 3
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
    if name in HEADS:
        HEADS[name](program, folder, model)


def pair(a, b, length=POSITIONS):
    """Token ids and types: [CLS] a [SEP] b [SEP], cut before the last one."""
    (_, *of_a, sep), (_, *of_b, _) = ids_of(a), ids_of(b)
    ids = [SPECIAL.index("[CLS]"), *of_a, sep, *of_b][:length - 1]
    types = ([0] * (len(of_a) + 2) + [1] * len(of_b))[:length - 1]
    return [*ids, sep], [*types, 1]


def their_logits(model, pairs):
    """Padded to one batch."""
    longest = max(len(ids) for ids, _ in pairs)
    padded = [[row + [0] * (longest - len(row)) for row in (ids, types, [1] * len(ids))]
              for ids, types in pairs]
    tokens, types, mask = torch.tensor(padded).unbind(1)
    if isinstance(model, transformers.BertForMultipleChoice):
        tokens, types, mask = (rows.view(-1, 4, longest) for rows in (tokens, types, mask))
    with torch.no_grad():
        return model(tokens, attention_mask=mask, token_type_ids=types)


def compare_scores(program, folder, task, data, wanted, *keys):
    """`wanted`: of each sample in the order of the data its logits, and nan where none may be."""
    for number, (layout, words) in enumerate(LAYOUTS.items()):
        file = folder / f"{task}{number}.jsonl"
        tessera(program, "eval", task, "--checkpoint", folder / "ours", "--data", data, "--batch",
                2, "--scores", file, *keys, *words)
        found = torch.tensor([json.loads(line)["scores"] for line in
                              file.read_text().splitlines()])
        if found.shape != wanted.shape:
            raise Failed(f"{task}: {tuple(found.shape)} scores, not {tuple(wanted.shape)}")
        if not (found[wanted.isnan()] < -29_000).all():
            raise Failed(f"{task}: an answer may be where none is")
        check(f"scores of {task} ({layout})", float((found - wanted).nan_to_num().abs().max()),
              SCORES)


PAIRS = [("aq zk bcd", "mno p"), ("t", "uvw xyz a b c d e"), ("kl", "k l"),
         ("abcdefgh ijk", "lmnopqrst uvwxyz abc"), ("abcd " * 7, "x")]  # the last two are cut


def scores_of_classes(program, folder, model):
    labels = ("entailment", "neutral", "contradiction")
    rows = [f"0\t1\t2\tg\t4\t5\t6\t7\t{a}\t{b}\t{labels[i % 3]}\n"
            for i, (a, b) in enumerate(PAIRS)]
    (folder / "mnli.tsv").write_text("\t".join("abcdefghijk") + "\n" + "".join(rows))
    wanted = their_logits(model, [pair(a, b) for a, b in PAIRS]).logits
    compare_scores(program, folder, "mnli", folder / "mnli.tsv", wanted)


def scores_of_choices(program, folder, model):
    questions = [("ab _ c", ["d", "e f", "gh", "i"]), ("xy z", ["a", "bb", "cc d", "e"])]
    article = "mn opq rst u v w"
    (folder / "race").mkdir()
    (folder / "race/1.txt").write_text(json.dumps({
        "article": article, "questions": [question for question, _ in questions],
        "options": [choices for _, choices in questions], "answers": ["B", "D"]}))
    pairs = [pair(question.replace("_", choice) if "_" in question else f"{question} {choice}",
                  article) for question, choices in questions for choice in choices]
    compare_scores(program, folder, "race", folder / "race", their_logits(model, pairs).logits)


def scores_of_spans(program, folder, model):
    """The first context has two windows: of 18 tokens, and those from the eighth on."""
    questions = [("ab c", "abc de fgh ijkl mno pqr st uvw"), ("x", "zy xw v")]
    paragraphs = [{"context": context, "qas": [
        {"id": question, "question": question,
         "answers": [{"text": context[:3].strip(), "answer_start": 0}]}]}
        for question, context in questions]
    (folder / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    long, short = (ids_of(context)[1:-1] for _, context in questions)
    room = POSITIONS - len(ids_of(questions[0][0])) - 1
    if not room < len(long) <= 8 + room:
        raise Failed("the first context has another number of windows")
    sep = SPECIAL.index("[SEP]")
    pairs, answerable = [], []
    for (question, _), window in zip([questions[0], *questions], [long[:room], long[8:], short],
                                     strict=True):
        ids = ids_of(question)
        pairs.append(([*ids, *window, sep], [0] * len(ids) + [1] * (len(window) + 1)))
        answerable.append([0, *range(len(ids), len(ids) + len(window))])
    out = their_logits(model, pairs)
    wanted = torch.full((len(pairs), 2, POSITIONS), torch.nan)
    for row, places in enumerate(answerable):
        wanted[row, 0, places] = out.start_logits[row, places]
        wanted[row, 1, places] = out.end_logits[row, places]
    compare_scores(program, folder, "squad", folder / "squad.json", wanted.flatten(1),
                   "--question", 8, "--stride", 8)


HEADS = {"BertForSequenceClassification": scores_of_classes,
         "BertForMultipleChoice": scores_of_choices,
         "BertForQuestionAnswering": scores_of_spans}


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


def sentence_transformer(program, folder):
    """What such a folder has beside the model is told."""
    source = saved(random_model(23, "BertModel", {}), folder / "vectors")
    kind = "sentence_transformers.models."
    (source / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": kind + name} for i, (path, name) in
         enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])]))
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    said = convert(program, source, folder / "vectors_ours")
    for part in ("1_Pooling is not read: its pooling_mode is max_tokens",
                 "2_Normalize is not read: it scales vectors"):
        if part not in said:
            raise Failed(f"a folder of sentence-transformers: {said}")


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
        sentence_transformer(program, Path(name))
        refusals(program, Path(name))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
