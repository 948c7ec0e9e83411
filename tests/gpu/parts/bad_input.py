"""Mistakes that only hardware shows in full: each must end soon, with its cause and a way out."""

import signal

from lost_rank import lose_rank

LIMIT_S = 25
CONFIG = "configs/shakespeare.toml"
SETTINGS = {"run.steps": 4, "validation.every_steps": 0, "batch.sequence_length": 32,
            "lr.warmup_steps": 1}
QUICK = {"batch.global": 4, "batch.micro": 2, "batch.sequence_length": 16, "model.hidden": 32,
         "model.layers": 1}
STAGED = {"comm.type": "shm", "comm.staged": True, "parallel.data": 2}


def problem_of(ended, fragments):
    if ended.code == 0:
        return "it trained"
    missing = [text for text in fragments if text not in ended.err]
    return f"no {missing} in: {ended.err.strip()[-800:]}" if missing else ""


def run(part, target):
    settings = {**SETTINGS, "data.path": target.text()}

    def refused(name, fragments, more=None, environment=None):
        ended = target.train(part, [CONFIG], name, {**settings, **(more or {})}, environment).ended
        part.check(name, problem_of(ended, fragments))

    refused("no_gpu", ["no GPU is visible here", "CUDA_VISIBLE_DEVICES"],
            environment={"CUDA_VISIBLE_DEVICES": ""})
    refused("index_beyond", ["device.index: there is no GPU 99"], {"device.index": 99})
    refused("more_ranks_than_gpus", ["has no unit for each of 2 ranks", "device.share = 2"], STAGED)
    refused("not_staged", ["or comm.staged = true, which copies"],
            {**STAGED, "comm.staged": False, "device.share": 2})
    out_of_memory(part, target, settings)
    killed_rank(part, target, settings | QUICK if target.quick else settings)


def out_of_memory(part, target, settings):
    """Activations of 17 GB each, or a GPU of 32 MiB that is emulated."""
    more = {"run.steps": 1, "batch.global": 32768, "batch.micro": 32768,
            "batch.sequence_length": 128, "model.hidden": 1024, "model.layers": 2}
    if target.emulated:
        target.check_config(part, [CONFIG], "full size, out_of_memory", {**settings, **more})
        more, small = {}, {"TESSERA_EMULATED_MEMORY": str(32 << 20)}
    ended = target.train(part, [CONFIG], "out_of_memory", {**settings, **more},
                         small if target.emulated else None).ended
    part.check("out_of_memory", problem_of(ended, ["out of memory: ", "of the GPU's"]))


def killed_rank(part, target, settings):
    """A rank that is gone ends the others, which wait for it in a collective."""
    several = {**settings, **STAGED, "device.share": 2, "comm.timeout_s": 5}
    problem, seconds, ended = lose_rank(part, target, "killed", CONFIG, several, signal.SIGKILL)
    if not problem and not (ended.code and "signal 9" in ended.err):
        problem = f"it said: {ended.err[-800:]}"
    part.check("killed_rank", problem, seconds=seconds)
