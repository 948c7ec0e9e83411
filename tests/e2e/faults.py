#!/usr/bin/env python3
"""Breaks small trainings at random moments: do they end with the numbers of an undisturbed run?

Each round starts a training in a layout, breaks it once to three times, and starts it again as a
user or --restarts would, until all steps are done. The first fault of each round is the next one of
this list, later ones and all moments are random. A round is right when metrics.jsonl is that of
the undisturbed run, bit for bit, and nothing is left: no process, no shared memory, no temporary
file or folder. The faults:

  kill_rank      SIGKILL of one rank
  kill_launcher  SIGKILL of the launcher, which must take its ranks with it
  stop_rank      SIGSTOP of one rank: the others wait in vain and the run blames it
  full_disk      no file may grow any more (a limit of the ranks), so saves fail
  flip_bit       the launcher is killed and a bit of the newest checkpoint flips
  interrupt      SIGTERM: the run saves and ends with 3
  cut_link       two hosts (network namespaces), one rank on each; the cable comes out and goes in
"""

import argparse
import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAYOUTS = {
    "one": {},
    "tp2": {"parallel.tensor": 2},
    "dp2": {"parallel.data": 2},
    "pp2": {"parallel.pipeline": 2},
    "dp2_gloo": {"parallel.data": 2, "comm.type": "gloo"},
    "dp2_zero1_bf16": {"parallel.data": 2, "optimizer.type": "distributed",
                       "precision.compute": "bf16"},
    "dp2_zero1_later": {"parallel.data": 2, "optimizer.type": "distributed",
                        "checkpoint.asynchronous": "true"},
    "tp2_fp16": {"parallel.tensor": 2, "precision.compute": "fp16"},
}
FAULTS = ["kill_rank", "kill_launcher", "stop_rank", "full_disk", "flip_bit", "interrupt",
          "cut_link"]
CONFIG = """schema = 1
[run]
name = "faults"
steps = {steps}
log_every_steps = 3
[device]
threads = 1
[comm]
timeout_s = {timeout}
init_timeout_s = 20
[batch]
global = 8
micro = 2
sequence_length = 16
[model]
type = "gpt"
layers = 2
hidden = 24
heads = 6
dropout = 0.1
vocab_multiple = 24
[lr]
type = "cosine"
peak = 1e-3
warmup_steps = 4
[data]
type = "text"
path = "text.txt"
[checkpoint]
every_steps = 5
failures = 1
[observers.metrics]
"""
LIMIT = 300  # seconds until a round has failed
STARTS = 12  # of one round


class Wrong(Exception):
    pass


def metrics_of(out):
    lines = []
    for line in (out / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        for speed in ("tokens_per_second", "seconds", "flops_per_second", "mfu"):
            entry.pop(speed, None)
        lines.append(json.dumps(entry))
    return lines


def checkpoints(out):
    """Complete ones, the newest last."""
    found = [path.parent for path in (out / "checkpoints").glob("step-*/index.json")]
    found = [path for path in found if path.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def processes_with(entry):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if entry.encode() in (folder / "environ").read_bytes().split(b"\0"):
                if state_of(folder.name) not in ("Z", ""):
                    found.append(int(folder.name))
        except OSError:
            pass
    return found


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except (OSError, IndexError):
        return ""


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended


class TwoHosts:
    """Two network namespaces with a cable between them, as hosts_support.hpp has them."""

    def __init__(self):
        command = ["unshare", "--net", "setpriv", "--pdeathsig", "KILL",
                   "sh", "-c", "echo ready; exec sleep 86400"]
        self.hosts = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            self.connect()
        except BaseException:
            self.close()
            raise

    def connect(self):
        # Before that a command "on" a host would change the network of this one.
        if any(host.stdout.readline() != b"ready\n" for host in self.hosts):
            raise OSError("unshare or setpriv has failed")
        second = str(self.hosts[1].pid)
        self.run(0, "ip", "link", "add", "cable0", "type", "veth",
                 "peer", "cable1", "netns", second)
        for host in (0, 1):
            self.run(host, "ip", "address", "add", f"10.78.0.{host + 1}/24", "dev", f"cable{host}")
            self.run(host, "ip", "link", "set", "lo", "up")
            self.run(host, "ip", "link", "set", f"cable{host}", "up")

    def on(self, host, *command):
        return ["nsenter", "--target", str(self.hosts[host].pid), "--net", *command]

    def run(self, host, *command):
        subprocess.run(self.on(host, *command), check=True, capture_output=True)

    def cable(self, state):
        self.run(1, "ip", "link", "set", "cable1", state)

    def close(self):
        for host in self.hosts:
            host.kill()
            host.wait()
            host.stdout.close()


class Round:
    def __init__(self, args, number, references):
        # Each round is seeded by itself, so that one of them can be run alone.
        generator = random.Random(f"{args.seed}/{number}")
        self.args, self.generator, self.references = args, generator, references
        self.first = args.faults[number % len(args.faults)]
        self.layout = generator.choice([name for name in args.layouts
                                        if name != "one" or self.first != "stop_rank"])
        if self.first == "cut_link":
            self.layout = "two_hosts"
        self.folder = Path(tempfile.mkdtemp(prefix="tessera_faults_"))
        self.out = self.folder / "out"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.entry = f"TESSERA_TEST_MARK={self.folder}"
        self.faults, self.starts, self.restarts = [], 0, 0
        self.shared = set(os.listdir("/dev/shm"))
        self.log = self.folder / "log"
        (self.folder / "run.toml").write_text(CONFIG.format(steps=args.steps, timeout=args.timeout))
        words = ["the ", "king ", "and ", "queen ", "of ", "night, "]
        text = random.Random(5)
        (self.folder / "text.txt").write_text("".join(text.choice(words) for _ in range(4000)))

    def environment(self, **more):
        return os.environ | {"TESSERA_TEST_MARK": str(self.folder),
                             "TMPDIR": str(self.temporary)} | more

    def command(self, restarts, sets=None):
        words = [self.args.build / "bin/tessera", "train", "run.toml",
                 "--set", f"run.out={self.out}"]
        for key, value in (sets if sets is not None else LAYOUTS[self.layout]).items():
            words += ["--set", f"{key}={value}"]
        if self.args.plugins:
            words += ["--set", f'plugins.path=["{self.args.plugins}"]']
        return words + (["--restarts", str(restarts)] if restarts else [])

    def start(self, command, **environment):
        self.starts += 1
        with self.log.open("a") as log:
            log.write(f"--- start {self.starts}\n")
            log.flush()
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log,
                                    env=self.environment(**environment))

    def ranks(self, launcher):
        """All of them, once they are there; none where the run has ended before."""
        if self.layout == "one" and "--restarts" not in launcher.args:
            return [launcher.pid]  # it has no launcher
        while launcher.poll() is None:
            found = [p for p in children(launcher.pid) if "\0TESSERA_RANK=" in self.environ(p)]
            if found:
                return found
            time.sleep(0.01)
        return []

    @staticmethod
    def environ(pid):
        try:
            return "\0" + Path(f"/proc/{pid}/environ").read_text(errors="replace")
        except OSError:
            return ""

    def wait_for_checkpoints(self, process, count):
        limit = time.monotonic() + LIMIT
        while len(checkpoints(self.out)) < count:
            if process.poll() is not None or time.monotonic() > limit:
                return False
            time.sleep(0.01)
        return True

    def undisturbed(self):
        if self.layout not in self.references:
            out = self.out
            self.out = self.folder / "undisturbed"
            if self.layout == "two_hosts":
                hosts = TwoHosts()
                try:
                    codes = [process.wait(LIMIT) for process in self.pair(hosts)]
                finally:
                    hosts.close()
            else:
                codes = [self.start(self.command(0)).wait(LIMIT)]
            if any(codes):
                raise Wrong(f"the undisturbed run ended with {codes}")
            self.references[self.layout] = metrics_of(self.out)
            shutil.rmtree(self.out)
            self.out, self.starts = out, 0
        return self.references[self.layout]

    def pair(self, hosts):
        """One rank on each host, started as torchrun would."""
        sets = {"parallel.data": 2, "comm.type": "gloo"}
        return [self.start(hosts.on(rank, *map(str, self.command(0, sets))), RANK=str(rank),
                           LOCAL_RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1",
                           MASTER_ADDR="10.78.0.1", MASTER_PORT="29500",
                           TESSERA_RUN_TOKEN="campaign") for rank in (0, 1)]

    # --- the faults; each returns when it has happened, False when it could not ---

    def kill_rank(self, launcher):
        ranks = self.ranks(launcher)
        if not ranks:
            return False
        send(self.generator.choice(ranks), signal.SIGKILL)
        return True

    def kill_launcher(self, launcher):
        send(launcher.pid, signal.SIGKILL)
        launcher.wait()
        self.no_process_is_left()

    def stop_rank(self, launcher):
        ranks = self.ranks(launcher)
        if len(ranks) < 2 or any(state_of(rank) == "T" for rank in ranks):
            return False  # nobody would wait: a run whose ranks are all stopped stands still
        send(self.generator.choice(ranks), signal.SIGSTOP)
        return True

    def full_disk(self, launcher):
        # Its soft limit is that of this run's ranks only: those of the next start are free again.
        ranks = self.ranks(launcher)
        for rank in ranks:
            try:
                _, hard = resource.prlimit(rank, resource.RLIMIT_FSIZE)
                resource.prlimit(rank, resource.RLIMIT_FSIZE, (3000, hard))
            except ProcessLookupError:
                pass
        return bool(ranks)

    def flip_bit(self, launcher):
        self.kill_launcher(launcher)
        complete = checkpoints(self.out)
        if len(complete) < 2:
            return False  # the only one has nothing before it to go back to
        files = sorted(path for path in complete[-1].iterdir() if path.stat().st_size > 0)
        victim = self.generator.choice(files)
        data = bytearray(victim.read_bytes())
        bit = self.generator.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        victim.write_bytes(data)
        return True

    def interrupt(self, launcher):
        send(launcher.pid, signal.SIGTERM)

    # --- one round ---

    def no_process_is_left(self):
        limit = time.monotonic() + 30
        while processes_with(self.entry):
            if time.monotonic() > limit:
                raise Wrong(f"processes are left: {processes_with(self.entry)}")
            time.sleep(0.02)

    def run_with_launcher(self):
        wanted = self.generator.randint(1, 3)
        process = self.start(self.command(self.generator.choice([0, 2, 5])))
        while True:
            if len(self.faults) < wanted:
                fault = self.first if not self.faults else self.generator.choice(
                    [f for f in self.args.faults if f != "cut_link"])
                if self.wait_for_checkpoints(process, self.generator.randrange(3)):
                    time.sleep(self.generator.uniform(0, 0.6))
                    if process.poll() is None and getattr(self, fault)(process) is not False:
                        self.faults.append(fault)
                        if process.poll() is None:
                            continue_after = time.monotonic() + self.generator.uniform(0, 3)
                            while process.poll() is None and time.monotonic() < continue_after:
                                time.sleep(0.02)
            else:
                process.wait(LIMIT)
            code = process.poll()
            if code is None:
                continue
            if code == 0:
                return
            if code not in (1, 3, -signal.SIGKILL, -signal.SIGTERM, 143):
                raise Wrong(f"it ended with {code}")
            if self.starts == STARTS:
                raise Wrong(f"it is not done after {STARTS} starts")
            self.no_process_is_left()
            process = self.start(self.command(self.generator.choice([0, 2, 5])))

    def run_on_two_hosts(self):
        hosts = TwoHosts()
        try:
            processes = self.pair(hosts)
            if self.wait_for_checkpoints(processes[0], self.generator.randrange(1, 3)):
                time.sleep(self.generator.uniform(0, 0.6))
                if processes[0].poll() is None:
                    hosts.cable("down")
                    self.faults.append("cut_link")
            codes = [process.wait(LIMIT) for process in processes]
            if self.faults and 0 in codes and codes != [0, 0]:
                raise Wrong(f"the ranks ended with {codes}")
            hosts.cable("up")
            while codes != [0, 0]:
                if self.starts >= STARTS:
                    raise Wrong(f"it is not done after {self.starts} starts of ranks")
                codes = [process.wait(LIMIT) for process in self.pair(hosts)]
        finally:
            hosts.close()

    def run(self):
        reference = self.undisturbed()
        while not self.faults:  # else it ended before it was broken: this host is fast
            if self.starts >= STARTS:
                raise Wrong("it always ends before it is broken: give more --steps")
            shutil.rmtree(self.out, ignore_errors=True)
            (self.run_on_two_hosts if self.layout == "two_hosts" else self.run_with_launcher)()
        self.no_process_is_left()
        self.restarts = self.log.read_text(errors="replace").count("\nrestart ")
        mine = metrics_of(self.out)
        if mine != reference:
            at = next((i for i, pair in enumerate(zip(mine, reference)) if pair[0] != pair[1]),
                      min(len(mine), len(reference)))
            raise Wrong(f"metrics.jsonl differs from line {at + 1} on ({len(mine)} lines, "
                        f"{len(reference)} undisturbed): {mine[at:at + 1]} {reference[at:at + 1]}")
        left = [path.name for path in (self.out / "checkpoints").iterdir()
                if path.name.endswith((".tmp", ".old"))]
        left += os.listdir(self.temporary)
        left += [name for name in set(os.listdir("/dev/shm")) - self.shared if "tessera" in name]
        if left:
            raise Wrong(f"left behind: {left}")

    def close(self, right):
        for pid in processes_with(self.entry):
            send(pid, signal.SIGKILL)
        if right or not self.args.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"kept: {self.folder}", flush=True)


def can_make_hosts():
    try:
        TwoHosts().close()
        return True
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no cut_link: two network namespaces cannot be made here ({error})", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(__file__).parents[2] / "build")
    parser.add_argument("--plugins", type=Path, help="another folder of plugins than the build's")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--timeout", type=float, default=2, metavar="SECONDS",
                        help="after which a rank is missed; more on a machine that others use")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--keep", action="store_true", help="the folders of rounds that are wrong")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if "cut_link" in args.faults and not can_make_hosts():
        args.faults = [fault for fault in args.faults if fault != "cut_link"]
    if not args.faults:
        return "nothing is left to break"
    print(f"seed {args.seed}", flush=True)
    references, right = {}, 0
    table = collections.Counter()
    numbers = range(args.first, args.first + args.rounds)
    for number in numbers:
        one = Round(args, number, references)
        begin, why = time.monotonic(), None
        try:
            one.run()
        except (Wrong, subprocess.SubprocessError, OSError, ValueError) as error:
            log = one.log.read_text(errors="replace")[-1500:] if one.log.exists() else ""
            why = f"{error}\n{log}"
        right += why is None
        table.update(one.faults)
        print(json.dumps({"round": number, "layout": one.layout, "faults": one.faults,
                          "starts": one.starts, "restarts": one.restarts, "right": why is None,
                          "seconds": round(time.monotonic() - begin, 1)}), flush=True)
        if why:
            print(why, flush=True)
        one.close(why is None)
    for fault in FAULTS:
        print(f"{fault:14} {table[fault]:4} times")
    print(f"{right} of {len(numbers)} rounds ended with the undisturbed run's metrics")
    return 0 if right == len(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
