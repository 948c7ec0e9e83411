"""`tessera eval` against transformers: a random Llama over bytes scores texts, words and choices as
PyTorch does, window by window, on one rank and on two."""

import json
import math
import re
import sys
import tempfile
from pathlib import Path

import torch

from hugging_face import Failed, one_thread, tessera
from hugging_face_llama import POSITIONS, random_model

TOLERANCE = 1e-5  # of sums: both sides are in FP32
WIKI = (" = Valkyria <unk> = \n \n It was released on 27 @,@ 000 discs , in \" Japan \" "
        "( 2011 ) ; \n it 's the first 3 @.@ 5 @-@ inch one : N people ' s [ sic ] choice . \n"
        " = = Plot = = \n The end ! \n")
DOCUMENTS = ["The quick brown fox jumps over the lazy dog, twice.", "a", "Short one.", "xyz " * 30]
STORIES = ["He gave the ball to the dog", "  some words  and a  last \n"]
QUESTIONS = [{"context": "The sky is ", "choices": ["blue", "a lemon tree"], "answer": 0},
             {"context": "Two and two", "choices": ["are four", "x", "make five!"], "answer": 2}]


def ids(text):
    return list(text.encode())


def scored(model, tokens, first):
    """Log probabilities of tokens[first:], and whether each has the largest logit."""
    with torch.no_grad():
        logits = model(torch.tensor([tokens[:-1]])).logits[0].double()
    targets = torch.tensor(tokens[1:])
    found = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    return found[first - 1:], (logits.argmax(-1) == targets)[first - 1:]


def nats(model, tokens, window, stride):
    total, done, begin = 0.0, 0, 0
    while done < len(tokens) - 1:
        end = min(begin + window, len(tokens) - 1)
        total -= float(scored(model, tokens[begin:end + 1], done + 1 - begin)[0].sum())
        done, begin = end, begin + stride
    return total


def detokenised(text):
    """As appendix E.1 of Shoeybi et al. 2019 asks for: the words as they were written."""
    pairs = [("s '", "s'"), (" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")]
    pairs += [(f" {mark} ", f"{mark} ") for mark in ":;.!?,"]
    for old, new in pairs:
        text = text.replace(old, new)
    for begin, end in ["()", "[]", "{}", '""', "''"]:
        left, right = re.escape(begin), re.escape(end)
        text = re.sub(rf"{left}\s*([^{right}]*?)\s*{right}", rf"{begin}\1{end}", text)
    for count in (4, 3, 2):
        text = text.replace(" ".join("=" * count), "=" * count)
    for old, new in [(" \u00b0 ", "\u00b0"), (" \n", "\n"), ("\n ", "\n"), (" N ", " 1 "),
                     (" 's", "'s")]:
        text = text.replace(old, new)
    return text


def wanted(model):
    perplexity = sum(nats(model, ids(text), POSITIONS, 7) for text in DOCUMENTS)
    words = sum(len(text.split()) for text in DOCUMENTS)
    yield "perplexity", ["--stride", 7], {"nats": perplexity,
                                          "word_perplexity": math.exp(perplexity / words)}
    wiki = nats(model, ids(detokenised(WIKI)), 16, 5)
    original = len(WIKI.strip().split(" "))
    yield "wikitext", ["--window", 16, "--stride", 5], {"nats": wiki, "original_tokens": original,
                                                        "perplexity": math.exp(wiki / original)}
    total, right = 0.0, 0
    for text in STORIES:
        context, word = text.rsplit(None, 1)
        last = ids(" " + word)
        tokens = (ids(context.strip()) + last)[-POSITIONS - 1:]
        found, largest = scored(model, tokens, len(tokens) - len(last))
        total, right = total - float(found.sum()), right + int(bool(largest.all()))
    yield "lambada", [], {"nats": total, "right": right}
    plain = by_characters = 0
    for question in QUESTIONS:
        sums = []
        for choice in question["choices"]:
            whole = ids(question["context"] + " " + choice)
            first = len(question["context"].rstrip().encode())
            sums.append(float(scored(model, whole, first)[0].sum()))
        normed = [one / len(choice) for one, choice in zip(sums, question["choices"])]
        plain += sums.index(max(sums)) == question["answer"]
        by_characters += normed.index(max(normed)) == question["answer"]
    yield "choices", [], {"accuracy": plain / 2, "accuracy_by_characters": by_characters / 2}


def write_data(folder):
    lines = {"perplexity.jsonl": [{"text": text} for text in DOCUMENTS],
             "lambada.jsonl": [{"text": text} for text in STORIES], "choices.jsonl": QUESTIONS}
    for name, objects in lines.items():
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in objects))
    (folder / "wikitext.txt").write_text(WIKI)


def main():
    one_thread()
    program = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        model = random_model(21, head_dim=12)
        model.save_pretrained(folder / "theirs")
        tessera(program, "convert", "--from", folder / "theirs", "--to", folder / "ours")
        for task, keys, want in wanted(model):
            data = next(folder.glob(f"{task}.*"))
            for ranks in ([], ["--ranks", 2], ["--ranks", 2, "--set", "parallel.tensor=2"]):
                words = ["--checkpoint", folder / "ours", "--data", data, "--json", *keys, *ranks]
                found = json.loads(tessera(program, "eval", task, *words))
                for key, value in want.items():
                    if abs(found[key] - value) > TOLERANCE * abs(value):
                        raise Failed(f"{task} {ranks}: {key} is {found[key]}, and {value} there")
            print(f"{task}: {want}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
