"""One training under layouts of two to eight ranks, all on this one GPU, against one rank: each
rank is a process, and messages go through the host's memory (comm.staged, device.share)."""

from concurrent.futures import ThreadPoolExecutor

from target import relative

LIMIT_S = 60
STEPS = 20
DENSE, EXPERTS = "configs/shakespeare.toml", "configs/moe_mixtral_tiny.toml"
# The tolerances of the table of all layouts (tests/multirank/invariant_test.cpp).
LOSS, NORM = 2e-6, 1e-5
SETTINGS = {"run.steps": STEPS, "batch.global": 8, "batch.micro": 2, "batch.sequence_length": 64,
            "model.layers": 4, "model.hidden": 64, "lr.peak": 1e-3, "lr.warmup_steps": 4,
            "validation.every_steps": 0, "comm.timeout_s": 30}
QUICK = {"run.steps": 2, "batch.global": 4, "batch.sequence_length": 16, "model.hidden": 32}

TENSOR, PIPELINE = {"parallel.tensor": 2}, {"parallel.pipeline": 2, "schedule.type": "1f1b"}
SEQUENCE = {**TENSOR, "parallel.sequence_parallel": True}
DATA = {"parallel.data": 2}
ZERO = {**DATA, "optimizer.type": "distributed"}
ALL = {**SEQUENCE, "parallel.pipeline": 2, "schedule.type": "zbv", **ZERO}
# (name, ranks, settings, configuration): the largest first.
ROWS = [
    ("tensor with sequence, pipeline zbv, data with ZeRO-1", 8, ALL, DENSE),
    ("experts, data", 2, {"parallel.expert": 2, **DATA}, EXPERTS),
    ("data with ZeRO-1", 2, ZERO, DENSE),
    ("tensor", 2, TENSOR, DENSE),
    ("tensor with sequence", 2, SEQUENCE, DENSE),
    ("context", 2, {"parallel.context": 2}, DENSE),
    ("pipeline", 2, PIPELINE, DENSE),
    ("data", 2, DATA, DENSE),
    ("tensor, pipeline", 4, {**TENSOR, **PIPELINE}, DENSE),
    ("data by gloo", 2, {**DATA, "comm.type": "gloo"}, DENSE),
]
QUICK_ROWS = ("data with ZeRO-1", "tensor")


def staged(ranks):
    return {"comm.type": "shm", "comm.staged": True, "device.share": ranks}


def difference(found, wanted):
    """Says how far losses and norms are apart, or nothing where they are close enough."""
    if len(found) != len(wanted):
        return f"{len(found)} steps, one rank has {len(wanted)}"
    loss, norm = (relative([a[i] for a in found], [b[i] for b in wanted]) for i in (0, 1))
    return "" if loss <= LOSS and norm <= NORM else f"losses {loss:.1e}, norms {norm:.1e} apart"


def run(part, target):
    settings = {**SETTINGS, "data.path": target.text()}
    if target.quick:
        for name, ranks, more, config in ROWS:
            target.check_config(part, [config], f"full size, {name}",
                                {**settings, **staged(ranks), **more})
        settings |= QUICK
    rows = [row for row in ROWS if not target.quick or row[0] in QUICK_ROWS]
    compare_with_one_rank(part, target, rows, settings, staged)


def compare_with_one_rank(part, target, rows, settings, joined):
    """Trains each row, and one rank of its configuration, two at a time. `joined(ranks)` has the
    settings by which ranks are joined. False where one rank does not train."""

    def train(name, config, more):
        return target.train(part, [config], name, {**settings, **more})

    def compare(row, one):
        name, ranks, more, config = row
        several = train(f"ranks-{ranks}", config, {**joined(ranks), **more})
        problem = several.ended.why() if several.ended.code else difference(
            several.numbers(), one[config].numbers())
        part.check(name, problem, ranks=ranks)

    configs = sorted({row[3] for row in rows})
    with ThreadPoolExecutor(2) as pool:
        one = dict(zip(configs, pool.map(lambda config: train("one", config, {}), configs)))
        for config, training in one.items():
            if training.ended.code:
                part.check(f"one rank of {config}", training.ended.why())
                return False
        for done in [pool.submit(compare, row, one) for row in rows]:
            done.result()
    return True
