"""What the parts of data.py share: texts, processes with their time and memory, rounds."""

import itertools
import json
import os
import resource
import statistics
import subprocess
import sysconfig
import threading
import time
from pathlib import Path

from processes import PROGRAM

PIECE = 2048  # characters of a document


def documents(megabytes):
    """Texts of sources in an order that does not change, cut into pieces."""
    left = megabytes * 1_000_000
    for file in itertools.cycle(sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))):
        text = file.read_text(errors="replace")
        for at in range(0, len(text), PIECE):
            if left <= 0:
                return
            left -= len(text[at:at + PIECE].encode())
            yield text[at:at + PIECE]


def write_lines(file, texts):
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


class Memory(threading.Thread):
    """The largest memory that a process and those below it had together, in MiB."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.largest, self.ends = pid, 0, False

    def below(self, pid):
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []
        return [pid] + [one for child in children for one in self.below(int(child))]

    def run(self):
        while not self.ends:
            total = 0
            for pid in self.below(self.pid):
                try:
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                total += int(rollup.split("\nPss:")[1].split()[0])
            self.largest = max(self.largest, total / 1024)
            time.sleep(0.05)


def timed(command, **options):
    begin = time.perf_counter()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **options) as process:
        memory = Memory(process.pid)
        memory.start()
        output, errors = process.communicate()
    memory.ends = True
    if process.returncode:
        raise SystemExit(f"{command[0]} failed:\n{errors}")
    return {"seconds": time.perf_counter() - begin, "memory": memory.largest, "output": output}


def tessera(folder, lines, threads, tokenizer, stages):
    file = folder / "build.toml"
    file.write_text(f'schema = 1\ninput = ["{lines}"]\noutput = "ours"\nthreads = {threads}\n'
                    f"tokenizer = {tokenizer}\nstages = {stages}\n")
    return timed([PROGRAM, "data", "build", file, "--force"])


def rounds(options, name, ours, theirs, same):
    ratios, memories = [], []
    for number in range(options.rounds):
        sides = [("ours", ours), ("theirs", theirs)][:: -1 if number % 2 else 1]
        taken = {side: run() for side, run in sides}
        same(taken)
        a, b = taken["ours"], taken["theirs"]
        ratios.append(b["seconds"] / a["seconds"])
        memories.append(a["memory"] / b["memory"])
        print(f"{name}: {a['seconds']:.2f} s, {a['memory']:.0f} MiB; peer {b['seconds']:.2f} s, "
              f"{b['memory']:.0f} MiB: {ratios[-1]:.1f} x, {memories[-1]:.2f} x memory", flush=True)
    print(f"{name}: median {statistics.median(ratios):.1f} x as fast, "
          f"{statistics.median(memories):.2f} x memory")


def output(*words, environment=None):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                            env={**os.environ, **(environment or {})})
    if result.returncode:
        raise SystemExit(f"{words[0]} failed:\n{result.stderr}")
    return result.stdout


class Timer:
    """What the processes that end within take: time, and processor time."""

    def __enter__(self):
        self.begin, self.used = time.perf_counter(), self.children()
        return self

    def __exit__(self, *_):
        self.taken = {"seconds": time.perf_counter() - self.begin,
                      "processor": self.children() - self.used}

    @staticmethod
    def children():
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def in_turns(options, name, sides, unit="s"):
    """Runs each side in turn, every other round backwards, and prints what they return: numbers.
    Returns them by side, a list each."""
    taken = {side: [] for side in sides}
    for number in range(options.rounds):
        for side in list(sides)[:: -1 if number % 2 else 1]:
            taken[side].append(sides[side]())
        print(f"{name}: " + ", ".join(f"{side} {values[-1]:.4g} {unit}"
                                      for side, values in taken.items()), flush=True)
    return taken


def say_ratio(name, taken, over, under, goal):
    """The median of the ratios within a round, and the medians of both."""
    ratio = statistics.median(a / b for a, b in zip(taken[over], taken[under]))
    print(f"{name}: {over} {statistics.median(taken[over]):.4g}, {under} "
          f"{statistics.median(taken[under]):.4g}: {ratio:.3g} (goal {goal})", flush=True)
