"""What the observer `tensorboard` writes, read back by TensorBoard: a run that is killed after a
checkpoint and resumed has each step once, with the values of metrics.jsonl."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {"lm loss": "loss", "learning-rate": "lr", "grad-norm": "grad_norm",
        "iteration-time": "seconds", "tokens-per-second": "tokens_per_second"}


def configuration(folder, steps):
    (folder / "text.txt").write_text("".join(chr(97 + i * i % 25) for i in range(5000)))
    (folder / "run.toml").write_text(
        f"""schema = 1
run = {{name = "seen", seed = 1, steps = {steps}, log_every_steps = 1, out = "{folder / "run"}"}}
batch = {{global = 2, micro = 2, sequence_length = 16}}
model = {{layers = 1, hidden = 16, heads = 2}}
lr.peak = 1e-3
data = {{type = "text", path = "{folder / "text.txt"}", validation = 0.1}}
validation = {{every_steps = 4, samples = 4}}
checkpoint.every_steps = 5
observers.console.type = "none"
observers.tensorboard.type = "tensorboard"
"""
    )


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def same(scalars, folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for tag, key in {**TAGS, "lm loss validation": "val_loss"}.items():
        wanted = [(line["step"], line[key]) for line in lines if key in line]
        found = [(event.step, event.value) for event in scalars[tag]]
        if [step for step, _ in wanted] != [step for step, _ in found]:
            sys.exit(f"{tag}: steps {found}, in metrics.jsonl {wanted}")
        for (step, want), (_, value) in zip(wanted, found):
            if abs(want - value) > 1e-6 * abs(want):
                sys.exit(f"{tag} of step {step}: {value}, in metrics.jsonl {want}")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration(folder, 100000)
        process = subprocess.Popen([program, "train", folder / "run.toml"])
        while not list((folder / "run/checkpoints").glob("step-*/index.json")):
            if process.poll() is not None:
                sys.exit(f"the run ended with {process.returncode}")
            time.sleep(0.01)
        time.sleep(0.2)  # some steps beyond the checkpoint
        process.send_signal(signal.SIGKILL)
        process.wait()
        newest = max(int(path.parent.name.split("-")[1])
                     for path in (folder / "run/checkpoints").glob("step-*/index.json")
                     if path.parent.name.count(".") == 0)
        configuration(folder, newest + 7)
        subprocess.run([program, "train", folder / "run.toml"], check=True)
        same(read(folder / "run/tensorboard"), folder / "run")
        print(f"killed after step {newest}, resumed: {newest + 7} steps, each once")


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    main()
