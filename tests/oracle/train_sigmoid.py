"""A GPT with experts that groups, sigmoid scores and a bias choose; run by oracle.py."""

import sigmoid_mistakes
from compare import HERE, Trial, mistakes_of, run
from expert_peer import SigmoidPeer
from train_experts import TRIAL as SOFTMAX

TRIAL = Trial(
    [*SOFTMAX.files, HERE / "sigmoid.toml"],
    SigmoidPeer,
    SOFTMAX.cases,
    mistakes_of(sigmoid_mistakes, SigmoidPeer),
    SOFTMAX.noticed_in,
)

if __name__ == "__main__":
    run(TRIAL)
