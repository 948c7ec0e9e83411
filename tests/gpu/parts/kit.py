"""The conformance kit: the contract of devices, every operation against `reference`, tensors of
more than 2^31 elements, dropout masks against the CPU's. All at once: none measures time."""

from concurrent.futures import ThreadPoolExecutor

LIMIT_S = 60
DTYPES = ("fp32", "bf16", "fp16")
SOME = ("--operation", "layernorm", "--operation", "gelu")  # tests_unit has all on the emulator


def run(part, target):
    jobs = [("large",), ("masks",)]
    jobs += [("contract", "--times", "10")] * 2 if not target.quick else [("contract",)]
    for dtype in DTYPES:
        jobs.append(("operations", "--dtype", dtype, *(SOME if target.quick else ())))
    with ThreadPoolExecutor(2 if target.quick else len(jobs)) as pool:
        for done in [pool.submit(target.check, part, *job) for job in jobs]:
            done.result()
