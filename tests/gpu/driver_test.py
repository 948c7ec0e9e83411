#!/usr/bin/env python3
"""That parts which hang, break or find something end as they should, and none stops the next."""

import io
import json
import math
import os
import sys
import tempfile
import time
import types
from contextlib import redirect_stdout
from pathlib import Path

import driver
from gpu_memory import PeakOf
from parts import bad_input, layouts, pytorch
from record import Record
from target import Ended, Target, relative, told


def hangs(part, target):
    part.check("before", "")
    # With a child of its own, which holds the output open.
    target.run(part, ["sh", "-c", "echo $$ >pids; sleep 60 & echo $! >>pids; wait"])


def breaks(part, target):
    part.measured("a", 3, "s", goal=5)
    raise KeyError("x")


def finds(part, target):
    part.check("good", "")
    part.check("bad", "off by 2\n", tolerance=1)
    ended = target.run(part, ["sh", "-c", "echo a; echo why >&2; exit 3"])
    assert (ended.code, ended.out, ended.err) == (3, "a\n", "why\n"), ended


def measures(part, target):
    part.measured("fast", 5, "s", goal=5)
    part.skipped("nothing", "no reason")
    stopped = target.run(part, ["sleep", "60"], limit_s=0.2)
    assert stopped.code == -9 and "stopped after 0 s" in stopped.err, stopped


def nothing(part, target):
    pass


PARTS = {"hangs": (hangs, 1), "breaks": (breaks, 20), "finds": (finds, 20),
         "measures": (measures, 20), "nothing": (nothing, 20)}
STATES = {"hangs": "timed out", "breaks": "failed", "finds": "failed", "measures": "skipped",
          "nothing": "failed"}
SUMMARY = ["failed    finds: bad: off by 2",
           "failed    breaks: (the part): KeyError: 'x'",
           "failed    nothing: (the part): it found nothing",
           "timed out hangs: (the part): stopped after 1 s; rows after the last are missing",
           "missed    breaks: a: 3",
           "skipped   measures: nothing: no reason"]


def gone(pid):
    """Also one that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_driver(folder):
    record = Record(folder / "out", {"device_type": "none"})
    target = Target(folder, folder, "cuda_emulated", True, folder)
    begin = time.monotonic()
    with redirect_stdout(io.StringIO()):
        for name, (run, limit) in PARTS.items():
            sys.modules[f"parts.{name}"] = types.SimpleNamespace(run=run, LIMIT_S=limit)
            driver.run_part(record, target, name, 1)
    assert time.monotonic() - begin < 15
    content = json.loads((folder / "out/results.json").read_text())
    states = {name: part["state"] for name, part in content["parts"].items()}
    assert states == STATES, states
    assert content["parts"]["hangs"]["rows"] == [{"name": "before", "state": "passed"}]
    assert record.summary()[:len(SUMMARY)] == SUMMARY, record.summary()
    assert all(gone(pid) for pid in (folder / "pids").read_text().split())
    log = (folder / "out/log.txt").read_text()
    assert "$ sh -c echo a" in log and "why" in log, log


def test_bundle_of_another_machine(folder):
    (folder / "bundle.json").write_text('{"glibc": "99.1"}')
    assert driver.too_old(folder).startswith("the bundle wants glibc 99.1 or later, this machine")
    (folder / "bundle.json").write_text('{"glibc": "2.4"}')
    assert not driver.too_old(folder)
    environment = Target(folder, folder, "cuda_emulated", True, folder).environment()
    assert environment["LD_LIBRARY_PATH"].split(":")[0] == str(folder / "lib")


def test_judgements():
    """What decides whether a part has passed."""
    assert not layouts.difference([(1, 2), (3, 4)], [(1, 2), (3.000001, 4)])
    assert "losses" in layouts.difference([(1, 2)], [(1.00001, 2)])
    assert "norms" in layouts.difference([(1, 2)], [(1, 2.0001)])
    assert layouts.difference([], [(1, 2)]) == "0 steps, one rank has 1"
    assert "losses inf" in layouts.difference([], [])
    assert "losses inf" in layouts.difference([(1, 2), (None, 2)], [(1, 2), (1, 2)])
    assert relative([1.0, 2.0], [1.0, 2.0]) == 0
    assert relative([1.0], [1.0, 2.0]) == relative([1.0, None], [1.0, 2.0]) == math.inf
    assert bad_input.problem_of(Ended(0, "", ""), []) == "it trained"
    assert not bad_input.problem_of(Ended(2, "", "no GPU"), ["GPU"])
    assert "no ['TPU']" in bad_input.problem_of(Ended(2, "", "no GPU"), ["TPU"])
    training = told(Ended(0, '{"event":"step","step":1,"loss":2.5,"grad_norm":1}\nnoise\n'
                             '{"event":"memory","step":1,"system_calls":4}\n'
                             '{"event":"end","seconds":3.5}\n', ""))
    assert training.numbers() == [(2.5, 1)] and training.seconds == 3.5
    assert training.memory[0]["system_calls"] == 4


def test_peaks():
    peaks = pytorch.peaks_of("NVIDIA H100 80GB HBM3", driver.ROOT)
    assert peaks["bf16"] == 989e12, peaks
    assert pytorch.peaks_of("NVIDIA H200", driver.ROOT)["bf16"] == 989e12
    assert pytorch.peaks_of("NVIDIA A100-SXM4-80GB", driver.ROOT)["bf16"] == 312e12
    assert pytorch.peaks_of("NVIDIA T4", driver.ROOT) == {}

    class Growing:
        def __init__(self):
            self.calls = 0

        def used(self):
            self.calls += 1
            return min(100 * self.calls, 700)

    with PeakOf(Growing(), every_s=0.001) as peak:
        time.sleep(0.2)
    assert peak.bytes == 600, peak.bytes
    with PeakOf(None) as peak:
        pass
    assert peak.bytes is None


def main():
    os.environ.pop("LD_LIBRARY_PATH", None)
    for test in (test_driver, test_bundle_of_another_machine):
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))
    test_judgements()
    test_peaks()
    print("passed")


if __name__ == "__main__":
    main()
