"""A GPT with PyTorch and with Tessera, and its training in bf16; run by oracle.py."""

import autocast
import mistakes
from compare import DOUBLE, HERE, Case, Trial, mistakes_of, run
from peer import Peer

TRIAL = Trial(
    [HERE / "gpt.toml"],
    Peer,
    [
        Case(
            "reference, fp64",
            {"device.type": "reference", "precision.compute": "fp64", "precision.main": "fp64"},
            DOUBLE,
            ("double",),
        ),
        Case("reference, fp32", {"device.type": "reference"}),
        Case("cpu, fp32", {"device.type": "cpu"}),
        Case(
            "cpu, fp32, tensor 2 x data 3",
            {"device.type": "cpu", "parallel.tensor": 2, "parallel.data": 3},
        ),
    ],
    mistakes_of(mistakes, Peer),
    "cpu, fp32",
)

if __name__ == "__main__":
    run(TRIAL, lambda program, folder: autocast.compare(
        program, TRIAL.files, TRIAL.config(), folder))
