"""Documents to token files, against Megatron-LM's preprocess_data.py."""

import subprocess

import processes

from corpus.measuring import documents, rounds, tessera, timed, write_lines

# The peer's script with a numpy of today, which has lost a name.
PREPROCESS = """
import runpy, sys
import numpy
numpy.float = float
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rsplit("/", 1)[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def megatron(options, folder, lines):
    return timed([options.python, "-c", PREPROCESS, options.megatron / "tools/preprocess_data.py",
                  "--input", lines,
                  "--output-prefix", folder / "theirs", "--dataset-impl", "mmap",
                  "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", options.vocab,
                  "--merge-file", options.merges, "--append-eod", "--workers", options.threads])


def bench(options, folder):
    options.python, _ = processes.peer_python()
    subprocess.run([options.python, "-m", "pip", "install", "--quiet", "six", "regex", "nltk"],
                   check=True)
    lines = folder / "lines.jsonl"
    write_lines(lines, documents(options.megabytes))
    (folder / "gpt2").mkdir()
    (folder / "gpt2/vocab.json").symlink_to(options.vocab)
    (folder / "gpt2/merges.txt").symlink_to(options.merges)

    def same(_):
        for end in ("bin", "idx"):
            ours, theirs = folder / f"ours.{end}", folder / f"theirs_text_document.{end}"
            if ours.read_bytes() != theirs.read_bytes():
                raise SystemExit(f"the files differ: .{end}")

    rounds(options, f"{options.megabytes} MB to tokens",
           lambda: tessera(folder, lines, options.threads,
                           '{type = "gpt2", path = "gpt2"}', "[]"),
           lambda: megatron(options, folder, lines), same)
