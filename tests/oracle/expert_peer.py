"""The training of peer.py with the experts of tests/bench/peers/experts.py in every block."""

from peer import Peer  # also finds the models of tests/bench/peers

from experts import Experts, ExpertShape, with_experts
from gpt import Gpt


class ExpertPeer(Peer):
    experts = Experts  # expert_mistakes.py overrides what can be got wrong

    def build(self, sizes):
        mlp = self.config["model"]["block"]["mlp"]
        shape = ExpertShape(*sizes, mlp["experts"], mlp["top_k"], mlp["ffn"])
        return with_experts(Gpt(shape), shape, self.experts)
