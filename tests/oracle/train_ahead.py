"""A GPT that predicts two tokens after the next one too, with PyTorch and with Tessera; then one
that predicts one, with a table of its head's own. Run by oracle.py."""

import json

import ahead_mistakes
from ahead_peer import AheadPeer
from compare import DOUBLE, HERE, Case, Trial, compare_all, mistakes_of, run
from record import relative

REFERENCE = {"device.type": "reference"}
DOUBLES = {**REFERENCE, "precision.compute": "fp64", "precision.main": "fp64"}
CPU = "cpu, fp32"

TRIAL = Trial(
    [HERE / "gpt.toml", HERE / "ahead.toml"],
    AheadPeer,
    [
        Case("reference, fp64", DOUBLES, DOUBLE, ("double",)),
        Case("reference, fp32", REFERENCE),
        Case(CPU, {"device.type": "cpu"}),
        Case(
            "cpu, fp32, tensor 2 x data 3",
            {"device.type": "cpu", "parallel.tensor": 2, "parallel.data": 3},
        ),
        Case(
            "cpu, fp32, context 2 x pipeline 2",
            {
                "device.type": "cpu",
                "parallel.context": 2,
                "parallel.pipeline": 2,
                "schedule.type": "1f1b",
            },
        ),
    ],
    mistakes_of(ahead_mistakes, AheadPeer),
    CPU,
)
ONE = Trial(
    [*TRIAL.files, HERE / "ahead_untied.toml"], AheadPeer, TRIAL.cases[:3], [], CPU
)


def told(out):
    """The metric of every step of a run."""
    return [json.loads(line)["mtp"] for line in (out / "metrics.jsonl").read_text().splitlines()]


def compare_metric(trial, texts, folder):
    peer = trial.peer(trial.config(), texts)
    peer.train(())
    fine = True
    for number, case in enumerate(trial.cases):
        apart = relative(told(folder / str(number)), peer.ahead_losses)
        limit = case.limits["loss"]
        fine &= apart <= limit
        print(f"{case.title + ' | mtp':50}{apart:9.1e}{' ' if apart <= limit else '!'}")
    return fine


def more(program, folder):
    texts = [(folder / "text" / name).read_bytes() for name in ("a.txt", "b.txt")]
    fine = compare_metric(TRIAL, texts, folder)
    inner = folder / "one"
    inner.mkdir()
    (inner / "text").symlink_to(folder / "text")
    fine &= compare_all(program, ONE, texts, inner)[0]
    return fine & compare_metric(ONE, texts, inner)


if __name__ == "__main__":
    run(TRIAL, more)
