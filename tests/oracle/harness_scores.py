"""`tessera eval` against lm-evaluation-harness: its own code has a random Llama over bytes score
choices, last words and texts in windows, and makes of the scores what its tasks do."""

import json
import logging
import os
import random
import sys
import tempfile
from pathlib import Path
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = os.environ["TQDM_DISABLE"] = "1"
for unused in ["datasets", "evaluate", "sacrebleu"]:  # it imports them for other tasks
    sys.modules[unused] = mock.MagicMock()

import tokenizers  # noqa: E402
import transformers  # noqa: E402
from lm_eval.api.metrics import perplexity  # noqa: E402
from lm_eval.api.task import MultipleChoiceTask, PerplexityTask  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: E402

from hugging_face import Failed, one_thread, tessera  # noqa: E402
from hugging_face_llama import POSITIONS, random_model  # noqa: E402

logging.getLogger("lm_eval").setLevel(logging.ERROR)
TOLERANCE = 1e-5  # relative, of sums: both sides are in FP32
WORDS = ("the sky is blue and a lemon tree of two people who gave every dog some ball, twice! "
         "it's é or ß").split(" ")


class NoDataSet:
    """What a task says of its data, which it is given here."""

    def __init__(self):
        pass

    def has_none(self):
        return False

    has_training_docs = has_validation_docs = has_test_docs = has_none


class Questions(NoDataSet, MultipleChoiceTask):
    def doc_to_text(self, doc):
        return doc["context"]


class Texts(NoDataSet, PerplexityTask):
    def doc_to_target(self, doc):
        return doc


def byte_tokenizer():
    """Ids that are the text's bytes."""
    alphabet = bytes_to_unicode()
    model = tokenizers.models.BPE({letter: byte for byte, letter in alphabet.items()}, [])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def phrase(chance, most):
    """Words of at most so many bytes together."""
    text = chance.choice(WORDS)
    while True:
        longer = f"{text} {chance.choice(WORDS)}"
        if len(longer.encode()) > most:
            return text
        text = longer


def questions(chance):
    for number in range(24):
        context = phrase(chance, POSITIONS - 14) + chance.choice(["", " ", "  "])
        choices = [phrase(chance, 8) for _ in range(chance.randint(2, 4))]
        yield {"context": context, "choices": choices, "answer": number % len(choices)}


def of_choices(model, docs):
    """As its loop over a task does: requests, answers, what they say of each document, the mean."""
    task, found, nats = Questions(), [], 0.0
    for doc in docs:
        theirs = {**doc, "gold": doc["answer"]}
        requests = task.construct_requests(theirs, doc["context"])
        answers = model.loglikelihood(requests, disable_tqdm=True)
        nats -= answers[doc["answer"]][0]
        found.append(task.process_results(theirs, answers))
    mean = {key: of([one[key] for one in found]) for key, of in task.aggregation().items()}
    return {"accuracy": mean["acc"], "accuracy_by_characters": mean["acc_norm"], "nats": nats}


def of_last_words(model, texts):
    requests = []
    for text in texts:
        context, word = text.rsplit(" ", 1)
        requests.append(Instance("loglikelihood", {}, (context, " " + word), 0))
    answers = model.loglikelihood(requests, disable_tqdm=True)
    sums = [one for one, _ in answers]
    return {"nats": -sum(sums), "right": sum(greedy for _, greedy in answers),
            "perplexity": perplexity(sums)}


def of_texts(model, texts):
    """Windows that do not overlap. A text's first byte is not scored here, so there it is what the
    text is given."""
    task, found, nats = Texts(), [], 0.0
    for text in texts:
        model.custom_prefix_token_id = text.encode()[0]
        request = Instance("loglikelihood_rolling", {}, (text[1:],), 0)  # it begins with ASCII
        [answer] = model.loglikelihood_rolling([request], disable_tqdm=True)
        nats -= answer
        found.append(task.process_results(text, (answer,)))
    of = task.aggregation()
    values = {key: of[key]([one[key] for one in found]) for key in of}
    return {"nats": nats, "word_perplexity": values["word_perplexity"],
            "bits_per_byte": values["bits_per_byte"]}


def main():
    one_thread()
    program = Path(sys.argv[1])
    chance = random.Random(5)
    docs = list(questions(chance))
    stories = [phrase(chance, POSITIONS) + " end" for _ in range(12)]
    # Of more than a window, whole ones: it moves the last one back until it is full.
    texts = ["a" + phrase(chance, size).encode().ljust(size, b"x").decode()
             for size in (5, POSITIONS, POSITIONS * 2, POSITIONS * 4)]
    lines = {"choices": docs, "lambada": [{"text": text} for text in stories],
             "perplexity": [{"text": text} for text in texts]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = random_model(22, head_dim=12)
        network.save_pretrained(folder / "theirs")
        tessera(program, "convert", "--from", folder / "theirs", "--to", folder / "ours")
        model = HFLM(pretrained=network, tokenizer=byte_tokenizer(), max_length=POSITIONS,
                     device="cpu", batch_size=4, prefix_token_id=0)
        wanted = {"choices": of_choices(model, docs), "lambada": of_last_words(model, stories),
                  "perplexity": of_texts(model, texts)}
        for task, values in wanted.items():
            data = folder / f"{task}.jsonl"
            data.write_text("".join(json.dumps(one) + "\n" for one in lines[task]))
            found = json.loads(tessera(program, "eval", task, "--checkpoint", folder / "ours",
                                       "--data", data, "--json"))
            for key, value in values.items():
                if abs(found[key] - value) > TOLERANCE * abs(value):
                    raise Failed(f"{task}: {key} is {found[key]}, and {value} there")
            print(f"{task}: {values}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
