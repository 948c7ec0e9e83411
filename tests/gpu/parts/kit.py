"""The conformance kit: the contract of devices, every operation against `reference`, tensors of
more than 2^31 elements, dropout masks against the CPU's. All at once: none measures time."""

from concurrent.futures import ThreadPoolExecutor

from parts.sanitizer import OPERATIONS  # of a rehearsal: tests_unit has all on the emulator

LIMIT_S = 90
DTYPES = ("fp32", "bf16", "fp16")


def run(part, target):
    jobs = [("large",), ("masks",)]
    jobs += [("contract", "--times", "10")] * 2 if not target.quick else [("contract",)]
    some = [word for name in OPERATIONS for word in ("--operation", name)] if target.quick else []
    for dtype in DTYPES if not target.quick else ("bf16",):
        jobs.append(("operations", "--dtype", dtype, *some))
    with ThreadPoolExecutor(2 if target.quick else len(jobs)) as pool:
        for done in [pool.submit(target.check, part, *job) for job in jobs]:
            done.result()
