"""compute-sanitizer, on a subset: it makes a kernel ten to a hundred times slower."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIMIT_S = 60
PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
FOUND = 9  # its exit code where it finds something
# Those with most to get wrong: shared memory, barriers, indices that the data decides.
OPERATIONS = ("attention", "attention_backward", "grouped_matmul", "grouped_weight", "layernorm",
              "layernorm_weight", "column_sum", "embedding_weight", "whole_cross_entropy",
              "sort_by_expert", "expert_choice", "keep_choices", "sum_squares")
JOBS = [("memcheck", "fp32"), ("racecheck", "bf16"), ("memcheck", "bf16"), ("racecheck", "fp32")]


def tool():
    places = [shutil.which("compute-sanitizer")]
    places += [Path(place, "compute-sanitizer") for place in PLACES]
    return next((str(place) for place in places if place and Path(place).exists()), None)


def sanitized(part, target, sanitizer, kind, dtype):
    command = [target.checker, "operations", "--device", target.device, "--dtype", dtype]
    command += [word for name in OPERATIONS for word in ("--operation", name)]
    for folder in target.plugins():
        command += ["--plugins", folder]
    if sanitizer:
        options = ["--tool", kind, "--error-exitcode", FOUND, "--print-limit", 5]
        command = [sanitizer, *options, *command]
    lines = []
    ended = target.run(part, command, each_line=lines.append)
    part.record.note(ended.out)
    told = [line for line in lines if line.startswith("=========")]
    if any("not supported" in line for line in told):
        part.skipped(f"{kind} {dtype}", " ".join(told[:3]).strip())
        return
    checks = sum(line.startswith("{") for line in lines)
    problem = "" if checks == len(OPERATIONS) else f"{checks} operations were run: {ended.why()}"
    if ended.code:
        problem = "".join(told[:12]) or ended.why()
    part.check(f"{kind} {dtype}", problem, operations=checks)


def run(part, target):
    sanitizer = tool()
    if target.emulated:  # the same without the tool
        part.skipped("compute-sanitizer", "an emulated GPU has none: ASan and TSan look there")
        sanitized(part, target, None, "none", "bf16")
        return
    if not sanitizer:
        part.skipped("compute-sanitizer", f"it is neither in PATH nor in {', '.join(PLACES)}")
        return
    with ThreadPoolExecutor(len(JOBS)) as pool:
        for done in [pool.submit(sanitized, part, target, sanitizer, *job) for job in JOBS]:
            done.result()
