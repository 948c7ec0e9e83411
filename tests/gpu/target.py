"""The programs under test, on this machine: how they are started and what they print."""

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import tessera_steps
from record import OutOfTime, last_lines

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GRACE_S = 5  # to end after it was killed


@dataclass
class Ended:
    code: int
    out: str
    err: str

    def why(self):
        return f"exit code {self.code}: {last_lines(self.err or self.out)}"


@dataclass
class Training:
    """What `tessera train --json` told."""

    ended: Ended
    steps: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    seconds: float = 0.0

    def losses(self):
        return [step["loss"] for step in self.steps]

    def numbers(self):
        """All that must have the same bits in two runs."""
        return [(step["loss"], step["grad_norm"]) for step in self.steps]


def library_folders():
    """Where this Python's packages have cuBLASLt and NCCL: PyTorch brings them."""
    spec = importlib.util.find_spec("nvidia")
    found = []
    for place in spec.submodule_search_locations if spec else ():
        for folder, library in (("cu13/lib", "libcublasLt.so.1*"),
                                ("cublas/lib", "libcublasLt.so.1*"), ("nccl/lib", "libnccl.so.2")):
            if any(Path(place, folder).glob(library)):
                found.append(str(Path(place, folder)))
    return found


class Target:
    def __init__(self, root, build, device, quick, scratch):
        self.root, self.build, self.device, self.quick = root, build, device, quick
        self.scratch = Path(scratch)
        self.emulated = device != "cuda"
        self.program = self.build / "bin/tessera"
        self.checker = self.build / "tests/gpu_check"
        self.libraries = [] if self.emulated else library_folders()
        self.runs = 0

    def missing(self):
        """What has not been built."""
        return [path for path in (self.program, self.checker) if not path.exists()]

    def environment(self, more=None):
        paths = [str(self.build / "lib")] if (self.root / "bundle.json").exists() else []
        paths += self.libraries
        paths += [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
        environment = {**os.environ, **(more or {})}
        if paths:
            environment["LD_LIBRARY_PATH"] = ":".join(paths)
        return environment

    def plugins(self):
        """Folders beside that of the build."""
        return [self.build / "tests/cuda"] if self.emulated else []

    def start(self, part, command, environment=None):
        """A Python is a peer, which finds libraries as it does without us."""
        part.record.note("$ " + " ".join(map(str, command)))
        peer = Path(command[0]).name.startswith("python")
        return subprocess.Popen(
            list(map(str, command)), env=None if peer else self.environment(environment),
            cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True)

    def run(self, part, command, environment=None, each_line=None, limit_s=None, started=None):
        """Runs a command to its end; each_line gets its output as it comes, from another thread,
        started its process id before that.

        At the part's end it is killed with all that it started, and OutOfTime is raised.
        """
        left = min(part.left(), limit_s or part.limit_s)
        process = self.start(part, command, environment)
        if started:
            started(process.pid)
        lines, errors, broken = [], [], []

        def read():
            try:
                for line in process.stdout:
                    lines.append(line)
                    if each_line:
                        each_line(line)
            except Exception as error:  # of the line: whoever waits is told
                broken.append(error)

        readers = [threading.Thread(target=task, daemon=True)
                   for task in (read, lambda: errors.append(process.stderr.read()))]
        for reader in readers:
            reader.start()
        late = False
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            end_group(process)
        for reader in readers:
            reader.join(GRACE_S)
        try:
            process.wait(GRACE_S)  # what hangs in a driver may stay
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        if broken:
            raise broken[0]
        ended = Ended(process.returncode, "".join(lines), "".join(errors))
        if ended.code:
            part.record.note(last_lines(ended.err, 40))
        if late and not (limit_s and limit_s < part.limit_s):
            raise OutOfTime
        return ended if not late else Ended(
            -signal.SIGKILL, ended.out, f"stopped after {left:.0f} s\n{ended.err}")

    def check(self, part, name, *words, prefix=""):
        """Rows of a part of gpu_check."""
        command = [self.checker, name, "--device", self.device, *words]
        for folder in self.plugins():
            command += ["--plugins", folder]
        command += ["--quick"] if self.quick else []

        return self.rows(part, command, prefix, name)

    def rows(self, part, command, prefix, name):
        """A row for each line that a program prints: what it checked, or what it measured."""

        def row(text):
            line = json.loads(text)
            title = prefix + line.pop("name")
            if "problem" in line:
                part.check(title, line.pop("problem"), **line)
            elif "value" in line:
                part.measured(title, line.pop("value"), line.pop("unit"),
                              goal=line.pop("at_most", None), most=True, **line)
            else:
                part.row(title, "measured", **line)

        ended = self.run(part, command, each_line=row)
        if ended.code:
            part.check(prefix + name, ended.why())
        return ended

    def text(self):
        """The plays of Shakespeare, or what any tree has."""
        plays = self.build / "data/shakespeare"
        return plays if plays.exists() else self.root / "LICENSE"

    def folder(self, name):
        """A new folder for what a run writes."""
        self.runs += 1
        made = self.scratch / f"{self.runs}-{name}"
        made.mkdir()
        return made

    def python_with_torch(self):
        """This Python; in a rehearsal also that of tests/bench, whose PyTorch has no GPU side. None
        without PyTorch. Nothing is imported, which takes seconds."""
        if importlib.util.find_spec("torch"):
            return sys.executable
        bench = self.build / "bench-venv/bin/python"
        return str(bench) if self.emulated and bench.exists() else None

    def settings(self, more):
        pairs = {"device.type": self.device, **more}
        if self.emulated:
            pairs["plugins.path"] = f'["{self.plugins()[0]}"]'
        return tessera_steps.arguments(pairs)

    def check_config(self, part, config, name, more):
        """What a rehearsal does with sizes that only a GPU can train."""
        ended = self.run(part, [self.program, "config", "check", *config, *self.settings(more)])
        part.check(name, ended.why() if ended.code else "")

    def training_command(self, config, name, more):
        settings = {"run.out": self.folder(name), "checkpoint.save": False, **more}
        return [self.program, "train", *config, "--json", *self.settings(settings)]

    def train(self, part, config, name, more, environment=None, limit_s=None):
        command = self.training_command(config, name, more)
        return told(self.run(part, command, environment, limit_s=limit_s))


def told(ended):
    training = Training(ended)
    for line in ended.out.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event.get("event") == "step" and "loss" in event:
            training.steps.append(event)
        elif event.get("event") == "memory":
            training.memory.append(event)
        elif event.get("event") == "end":
            training.seconds = event["seconds"]
    return training


def relative(found, wanted):
    """The largest relative difference; infinite where lengths differ or a number is none (a loss
    that is not finite is null in JSON)."""
    pairs = list(zip(found, wanted))
    if len(found) != len(wanted) or not pairs or None in (*found, *wanted):
        return math.inf
    return max(abs(a / b - 1) for a, b in pairs)


def end_group(process):
    """Ends a process that start() made, with its own children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
