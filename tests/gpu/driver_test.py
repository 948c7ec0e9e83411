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
from unittest import mock

import driver
from gpu_facts import Nvml, PeakOf, driver_facts
from parts import bad_input, layouts, pytorch
from record import Part, Record
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
    library = folder / "libstdc++.so.6"
    library.write_bytes(b"GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_3.4\0")
    assert driver.libstdcxx_of("/bin/true") is None and driver.newest_glibcxx(None) == ""
    for name, wanted, why in (("glibc", "99.1", "the bundle wants glibc 99.1 or later, this mach"),
                              ("libstdc++", "GLIBCXX_3.4.31", "the bundle wants libstdc++ GLIBC"),
                              ("glibc", "2.4", "")):
        versions = {"glibc": "2.4", "libstdc++": "GLIBCXX_3.4.30", name: wanted}
        (folder / "bundle.json").write_text(json.dumps(versions))
        with mock.patch.object(driver, "libstdcxx_of", return_value=library):
            problem = driver.too_old(folder)
        assert problem.startswith(why) and bool(problem) == bool(why), problem
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
    for unlike in ("NVIDIA T4", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A100-PCIE-40GB",
                   "NVIDIA H100 80GB HBM3 MIG 1g.10gb"):
        assert pytorch.peaks_of(unlike, driver.ROOT) == {}, unlike

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


# A program under test: two ranks, of which the second is waited for.
TRAINS = """sleep 61 & sleep 60 &
echo '{"event":"step","step":1,"loss":1,"grad_norm":1}'
wait $!
echo "rank 1 was ended by signal 9" >&2
exit 1"""
HANGS = "yes why | head -c 300000 >&2; sleep 60"  # more than a pipe holds


def test_killed_rank(folder):
    target = Target(folder, folder, "cuda_emulated", True, folder)
    target.program.parent.mkdir()
    for number, (text, limit, wanted) in enumerate((
            (TRAINS, 20, ""), (HANGS, 3, "no step of two ranks in 2 s: exit code -9: "),
            ("exit 3", 20, "no step of two ranks in 0 s: exit code 3:"),
            (TRAINS.replace("wait $!", "wait"), 8, "not all had ended"))):
        target.program.write_text(f"#!/bin/sh\n{text}\n")
        target.program.chmod(0o755)
        begin = time.monotonic()
        with redirect_stdout(io.StringIO()):
            part = Part(Record(folder / f"out{number}", {}), "bad_input", limit)
            bad_input.killed_rank(part, target, {})
        assert time.monotonic() - begin < limit + 1, text
        row, = part.table["rows"]
        assert row["state"] == ("failed" if wanted else "passed"), row
        assert row.get("why", "").startswith(wanted), row


def test_gpu_by_uuid(folder):
    """The GPU that gpu_check has, not the machine's first."""
    (folder / "nvidia-smi").write_text('#!/bin/sh\n[ "$1" = --id=GPU-7 ] && echo "H100, 580.1, 9"')
    (folder / "nvidia-smi").chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    try:
        assert driver_facts("GPU-7") == {"gpu": "H100", "driver": "580.1", "gpu_memory": "9"}
        assert driver_facts("GPU-8") == {}
    finally:
        os.environ["PATH"] = before

    def memory(handle, pointer):
        assert handle.value == 7
        pointer._obj.used = 123
        return 0

    def by_uuid(uuid, pointer):
        pointer._obj.value = 7
        return 0 if uuid == b"GPU-7" else 6

    library = types.SimpleNamespace(nvmlInit_v2=lambda: 0, nvmlDeviceGetHandleByUUID=by_uuid,
                                    nvmlDeviceGetMemoryInfo=memory)
    assert Nvml("GPU-7", library).used() == 123
    try:
        Nvml("GPU-8", library)
    except OSError as error:
        assert str(error) == "NVML finds no GPU GPU-8", error
    else:
        raise AssertionError("found")


def main():
    os.environ.pop("LD_LIBRARY_PATH", None)
    for test in (test_driver, test_bundle_of_another_machine, test_killed_rank, test_gpu_by_uuid):
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder))
    test_judgements()
    test_peaks()
    print("passed")


if __name__ == "__main__":
    main()
