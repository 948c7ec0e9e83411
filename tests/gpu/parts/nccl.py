"""Ranks over NCCL. They share this one GPU, so NCCL joins them by sockets (NCCL_HOSTID)."""

import signal
from concurrent.futures import ThreadPoolExecutor

from lost_rank import lose_rank
from parts.layouts import DATA, DENSE, EXPERTS, PIPELINE, SETTINGS, TENSOR, ZERO, difference

LIMIT_S = 45
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

    def train(name, config, more):
        return target.train(part, [config], name, {**settings, **more})

    def compare(row, one):
        name, ranks, more, config = row
        several = train(f"nccl-{ranks}", config, {**over_nccl(ranks), **more})
        problem = several.ended.why() if several.ended.code else difference(
            several.numbers(), one[config].numbers())
        part.check(name, problem, ranks=ranks)

    configs = sorted({row[3] for row in ROWS})
    with ThreadPoolExecutor(2) as pool:
        one = dict(zip(configs, pool.map(lambda config: train("one", config, {}), configs)))
        for config, training in one.items():
            if training.ended.code:
                part.check(f"one rank of {config}", training.ended.why())
                return
        for done in [pool.submit(compare, row, one) for row in ROWS]:
            done.result()
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
