"""A training step with `indexed` against one with constant tokens: of the model of
train_step.toml, and of a small one (graphs.py) whose steps are short. Reading is what the batch of
a step takes alone; a thread reads the next one while a step computes."""

import json
import statistics

import processes
from graphs import SMALL
from tessera_steps import CONFIG, arguments

from corpus.measuring import Timer, documents, in_turns, output, say_ratio, write_lines

BATCH = 8
CASES = {"small": (SMALL, 400, 20, 32), "whole": ({"device.threads": 2}, 10, 3, 256)}


def bench(options, folder):
    lines = folder / "lines.jsonl"
    write_lines(lines, documents(2))
    build = folder / "build.toml"
    build.write_text(f'schema = 1\ninput = ["{lines}"]\noutput = "tokens"\n'
                     'tokenizer = {type = "byte"}\n')
    output(processes.PROGRAM, "data", "build", build)
    (folder / "tokens.report.json").unlink()  # bench_corpus has no tokenizer
    datasets = {"indexed": {"data.type": "indexed", "data.path": f'["{folder}/tokens"]'},
                "constant tokens": {"data.type": "constant_tokens"}}
    for name, (settings, steps, warmup, length) in CASES.items():
        if options.processor:
            settings = {**settings, "device.threads": 1}

        def side(data):
            def run():
                out = folder / f"run{len(list(folder.iterdir()))}"
                keys = {"run.steps": warmup + steps, "run.out": out, **settings, **data}
                with Timer() as timer:
                    output(processes.PROGRAM, "train", CONFIG, *arguments(keys),
                           environment={"TESSERA_PLUGIN_PATH": processes.BUILD / "bench/plugins"})
                if options.processor:
                    return timer.taken["processor"] / (warmup + steps) * 1e3
                lines = (out / "metrics.jsonl").read_text().splitlines()
                return 1e3 * statistics.median(json.loads(line)["seconds"]
                                               for line in lines[warmup:])
            return run

        taken = in_turns(options, f"a step, {name}",
                         {data: side(keys) for data, keys in datasets.items()}, "ms")
        say_ratio(f"a step, {name}", taken, "indexed", "constant tokens", "1.005")
        keys = f'path = ["{folder}/tokens"]'
        found = json.loads(output(processes.BUILD / "bin/bench_corpus", "samples", keys, length, 1,
                                  2000))
        reading = found["processor"] / 2000 * BATCH * 1e3
        step = statistics.median(taken["indexed"])
        print(f"a step, {name}: reading {reading:.4f} ms of {step:.4g}: {reading / step:.2g}")
