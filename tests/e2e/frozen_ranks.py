#!/usr/bin/env python3
"""Freezes one rank (SIGSTOP) of a training, again and again: does the run name that rank?

Each trial starts a small training, stops one rank at a random moment, of its steps or of its start,
and reads the last line that the run prints: of our launcher, or, where ranks were started one by
one as torchrun would, of each rank that was not stopped. With --when absent one rank of theirs is
never started. A trial is right when every such line blames that rank and no other, and each process
told its end in fewer than ten lines.
"""

import argparse
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAYOUTS = {
    "tp2": {"parallel.tensor": 2},
    "pp2": {"parallel.pipeline": 2},
    "dp2": {"parallel.data": 2},
    "cp2": {"parallel.context": 2},
    "tp2_dp2": {"parallel.tensor": 2, "parallel.data": 2},
    "tp2_pp2": {"parallel.tensor": 2, "parallel.pipeline": 2},
    "tp2_cp2": {"parallel.tensor": 2, "parallel.context": 2},
    "pp2_dp2": {"parallel.pipeline": 2, "parallel.data": 2},
    "pp4": {"parallel.pipeline": 4},
    "dp4_zero1": {"parallel.data": 4, "optimizer.type": "distributed"},
}
CONFIG = """schema = 1
[run]
name = "frozen"
steps = 1000000
log_every_steps = 1
[device]
threads = 1
[batch]
global = 8
micro = 2
sequence_length = 16
[model]
type = "gpt"
layers = 4
hidden = 24
heads = 6
dropout = 0.0
vocab_multiple = 24
[optimizer]
type = "replicated"
[lr]
type = "cosine"
peak = 1e-3
warmup_steps = 4
[data]
type = "text"
path = "text.txt"
[checkpoint]
save = false
[observers.metrics]
"""
SECONDS = 120  # until a trial has failed
STARTS = 3  # of a trial
NO_START = "it did not start"
LINES = 10  # the end of a run has fewer: then a terminal shows all of it
STEP = re.compile(r"step +\d+/")  # begins a line of the console


def command(args, layout, communicator, out):
    sets = LAYOUTS[layout] | {"comm.type": communicator, "comm.timeout_s": args.timeout,
                              "comm.init_timeout_s": args.init_timeout, "run.out": out}
    words = [args.build / "bin/tessera", "train", "frozen.toml"]
    chosen = [f"{key}={value}" for key, value in sets.items()] + args.set
    return words + [word for each in chosen for word in ("--set", each)]


def end_of(text):
    """The lines after those of the steps: all of a process that shows no steps."""
    lines = text.rstrip().split("\n")
    steps = [number for number, line in enumerate(lines) if STEP.match(line)]
    return lines[steps[-1] + 1:] if steps else lines


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Trial:
    def __init__(self, args, layout, communicator, starter, generator):
        self.world = math.prod(size for key, size in LAYOUTS[layout].items()
                               if key.startswith("parallel."))
        self.victim = generator.randrange(self.world)
        if args.rank is not None:
            self.victim = args.rank
        # The rank that serves the store is not looked for by those that cannot reach it.
        self.pause = generator.uniform(0, args.start if args.when == "start" else 1.5)
        self.starter, self.when, self.within = starter, args.when, args.within
        self.folder = tempfile.TemporaryDirectory(prefix="tessera_frozen_")
        folder = Path(self.folder.name)
        (folder / "frozen.toml").write_text(CONFIG)
        words = ["the ", "king ", "and ", "queen ", "of ", "night, "]
        (folder / "text.txt").write_text("".join(generator.choice(words) for _ in range(4000)))
        self.lines = 0  # of the end, where most were told
        self.metrics = folder / "out/metrics.jsonl"
        line = command(args, layout, communicator, "out")
        self.processes = []
        environments = [{}]
        if starter == "each":
            port, job = free_port(), folder.name
            environments = [
                {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.world,
                 "LOCAL_WORLD_SIZE": self.world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                 "TORCHELASTIC_RUN_ID": job}
                for rank in range(self.world)
            ]
        self.logs = [folder / f"log.{number}" for number in range(len(environments))]
        for log, environment in zip(self.logs, environments):
            if args.when == "absent" and environment["RANK"] == self.victim:
                log.write_text("")
                self.processes.append(None)
                continue
            with log.open("w") as file:
                self.processes.append(subprocess.Popen(
                    line, cwd=folder, stdout=file, stderr=file,
                    env=os.environ | {key: str(value) for key, value in environment.items()}))

    def pid_of_victim(self):
        if self.starter == "each":
            return self.processes[self.victim].pid
        launcher = self.processes[0].pid
        for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            try:
                environment = Path(f"/proc/{child}/environ").read_text()
            except OSError:  # a child that has ended: it asked a driver for its GPUs
                continue
            if f"\0TESSERA_RANK={self.victim}\0" in environment:
                return int(child)
        return None

    def wait_for_moment(self, limit):
        """None, or what kept the training from coming so far."""
        if self.when == "absent":
            return None
        while not (self.pid_of_victim() if self.when == "start" else
                   self.metrics.exists() and self.metrics.read_text().count("\n") > 2):
            if time.monotonic() > limit or any(p.poll() is not None for p in self.processes):
                return f"{NO_START}: {self.logs[0].read_text()[-500:]}"
            time.sleep(0.02)
        time.sleep(self.pause)
        return None

    def run(self):
        """The lines that blame somebody."""
        limit = time.monotonic() + SECONDS
        if why := self.wait_for_moment(limit):
            return [why]
        victim = self.processes[self.victim] if self.when == "absent" else self.pid_of_victim()
        if victim is not None:
            os.kill(victim, signal.SIGSTOP)
        begin = time.monotonic()
        waited = [p for p in self.processes if p and p.pid != victim]
        try:
            for process in waited:
                process.wait(max(limit - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            return ["it did not end"]
        self.seconds = time.monotonic() - begin
        ends = [end_of(log.read_text()) for log, process in zip(self.logs, self.processes)
                if process in waited]
        self.lines = max(len(end) for end in ends)
        return [end[-1] if end else "it ended without a word" for end in ends]

    def close(self):
        for process in filter(None, self.processes):
            process.kill()
            process.wait()
        self.folder.cleanup()

    def right(self, lines):
        # Rank 0 serves the store of ranks that were started one by one: then it is named as such.
        host = "the process that serves the store (rank 0"
        ends = "is stopped|neither|did not start"
        names = [re.match(rf"(?:\[rank \d+\] )?(?:ranks? ([\d, ]+?) (?:{ends})|"
                          + re.escape(host) + ")", line) for line in lines]
        # Before the first step the lines that a run begins with count, too.
        few = self.lines < LINES or self.when != "steps"
        soon = getattr(self, "seconds", 0) <= self.within
        return bool(lines) and few and soon and all(
            name and (name[1] or "0") == str(self.victim) for name in names)


def run_trial(args, layout, communicator, starter, generator):
    """The trial and the lines that blame somebody. A crowded machine may hold a rank up for
    comm.timeout_s before it is frozen: such a training says nothing of what is asked here, and is
    begun anew."""
    for attempt in range(STARTS):
        trial = Trial(args, layout, communicator, starter, generator)
        try:
            lines = trial.run()
        finally:
            trial.close()
        if attempt + 1 == STARTS or not (lines and lines[0].startswith(NO_START)):
            return trial, lines
        print(f"begun anew: {lines[0]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(__file__).parents[2] / "build")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--communicators", nargs="+", default=["shm", "gloo"])
    parser.add_argument("--starters", nargs="+", choices=["ours", "each"],
                        default=["ours", "each"])
    parser.add_argument("--trials", type=int, default=5, help="of each combination")
    parser.add_argument("--timeout", type=float, default=2, help="comm.timeout_s")
    parser.add_argument("--init-timeout", type=float, default=60, help="comm.init_timeout_s")
    parser.add_argument("--when", choices=["steps", "start", "absent"], default="steps")
    parser.add_argument("--rank", type=int, help="that is frozen; without it any")
    parser.add_argument("--start", type=float, default=0.4, help="seconds that a start takes")
    parser.add_argument("--within", type=float, default=SECONDS, help="seconds until all ended")
    parser.add_argument("--set", nargs="+", default=[], help="more settings: comm.staged=true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.99, help="share that must be right")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if args.when == "absent" and args.starters != ["each"]:
        parser.error("our launcher starts all ranks: --when absent needs --starters each")
    generator = random.Random(args.seed)
    right = count = 0
    for number in range(args.trials):
        for starter in args.starters:
            for communicator in args.communicators:
                for layout in args.layouts:
                    trial, lines = run_trial(args, layout, communicator, starter, generator)
                    good = trial.right(lines)
                    count += 1
                    right += good
                    print(json.dumps({"trial": number, "starter": starter, "layout": layout,
                                      "communicator": communicator, "frozen": trial.victim,
                                      "pause": round(trial.pause, 3),
                                      "right": good, "told": None if good else lines,
                                      "lines": trial.lines,
                                      "seconds": round(getattr(trial, "seconds", -1), 1)}),
                          flush=True)
    print(f"{right} of {count} trials named the frozen rank")
    return 0 if right >= args.least * count else 1


if __name__ == "__main__":
    sys.exit(main())
