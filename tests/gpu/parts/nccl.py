"""Ranks over NCCL. They share this one GPU, so NCCL joins them by sockets (NCCL_HOSTID)."""

import signal

from lost_rank import lose_rank
from parts.layouts import (DATA, DENSE, EXPERTS, PIPELINE, SETTINGS, TENSOR, ZERO,
                           compare_with_one_rank)

LIMIT_S = 75
ROWS = [
    ("tensor, pipeline", 4, {**TENSOR, **PIPELINE}, DENSE),
    ("tensor", 2, TENSOR, DENSE),
    ("data with ZeRO-1", 2, ZERO, DENSE),
    ("experts, data", 2, {"parallel.expert": 2, **DATA}, EXPERTS),
    ("pipeline", 2, PIPELINE, DENSE),
    ("data, whole steps as graphs", 2, {**DATA, "graph.type": "full_iteration"}, DENSE),
]


def over_nccl(ranks):
    return {"comm.type": "nccl", "device.share": ranks}


def run(part, target):
    if target.emulated:
        part.skipped("ranks over NCCL", "the emulated one joins threads of one process only")
        return
    settings = {**SETTINGS, "data.path": target.text()}
    if not compare_with_one_rank(part, target, ROWS, settings, over_nccl):
        return
    for name, number in (("a killed rank", signal.SIGKILL), ("a stopped rank", signal.SIGSTOP)):
        lost(part, target, settings, name, number)


def lost(part, target, settings, name, number):
    """The others wait for it in a collective, on the GPU."""
    several = {**settings, **over_nccl(2), **DATA, "comm.timeout_s": 5}
    problem, seconds, ended = lose_rank(
        part, target, name.replace(" ", "-"), DENSE, several, number)
    if not problem and not (ended.code and "rank 1" in ended.err):
        problem = f"it said: {ended.err[-800:]}"
    part.check(name, problem, seconds=seconds)
