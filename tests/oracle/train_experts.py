"""A GPT with a mixture of experts in every block, with PyTorch and with Tessera; run by oracle.py.

How Tessera groups rows for its experts and carries them between ranks is its own affair: the peer
is the loop over experts of tests/bench/peers/experts.py.
"""

import expert_mistakes
from compare import DOUBLE, HERE, Case, Trial, mistakes_of, run
from expert_peer import ExpertPeer

REFERENCE = {"device.type": "reference"}
DOUBLES = {**REFERENCE, "precision.compute": "fp64", "precision.main": "fp64"}

TRIAL = Trial(
    [HERE / "gpt.toml", HERE / "experts.toml"],
    ExpertPeer,
    [
        Case("reference, fp64", DOUBLES, DOUBLE, ("double",)),
        Case("cpu, fp32", {"device.type": "cpu"}),
        Case("cpu, fp32, data 3 x expert 3", {"parallel.data": 3, "parallel.expert": 3}),
        Case(
            "cpu, fp32, allgather, expert 6 of 2 x 3",
            {
                "parallel.tensor": 2,
                "parallel.data": 3,
                "parallel.expert": 6,
                "parallel.expert_tensor": 1,
                "model.block.mlp.dispatcher.type": "allgather",
            },
        ),
    ],
    mistakes_of(expert_mistakes, ExpertPeer),
    "cpu, fp32",
)

if __name__ == "__main__":
    run(TRIAL)
