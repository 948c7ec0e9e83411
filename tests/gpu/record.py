"""What was found: a table of parts and their rows, on the disk after each row."""

import json
import os
import threading
import time

# Worst first. "missed": measured, and under its goal. Only a part can be "timed out".
STATES = ("failed", "timed out", "missed", "skipped", "measured", "passed")
BAD = ("failed", "timed out")


class Record:
    """results.json and log.txt of a folder; rows also go to standard output."""

    def __init__(self, folder, about):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.json"
        self.log = (folder / "log.txt").open("w")
        self.lock = threading.Lock()
        self.content = {"schema": 1, "about": about, "parts": {}}
        self.write()

    def write(self):
        """All of it or what was there: the machine may be taken away at any time."""
        with self.lock:
            new = self.path.with_suffix(".new")
            with new.open("w") as file:
                json.dump(self.content, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            new.rename(self.path)

    def say(self, text):
        print(text, flush=True)
        self.note(text)

    def note(self, text):
        """For the log only."""
        self.log.write(text + "\n")
        self.log.flush()

    def about(self, **facts):
        self.content["about"].update(facts)
        self.write()

    def states(self):
        return {name: part["state"] for name, part in self.content["parts"].items()}

    def summary(self):
        """Lines, the worst news first."""
        rows = [(STATES.index(row["state"]), name, row)
                for name, part in self.content["parts"].items() for row in part["rows"]]
        rows += [(STATES.index(part["state"]), name, {"name": "(the part)", **part})
                 for name, part in self.content["parts"].items() if part.get("why")]
        short = lambda row: " ".join(str(row.get("why", row.get("value"))).split())[:300]
        lines = [f"{row['state']:9} {name}: {row['name']}: {short(row)}"
                 for place, name, row in sorted(rows, key=lambda one: one[0])
                 if STATES[place] in (*BAD, "missed", "skipped")]
        for name, part in self.content["parts"].items():
            counts = [f"{count} {state}" for state in STATES
                      if (count := sum(row["state"] == state for row in part["rows"]))]
            lines.append(f"{part['state']:9} {name}, {part['seconds']:.0f} of {part['limit_s']} s: "
                         f"{', '.join(counts) or 'no rows'}")
        return lines


class OutOfTime(Exception):
    """The limit of the part is reached."""


class Part:
    """One part while it runs. Rows may come from several threads."""

    def __init__(self, record, name, limit_s):
        self.record, self.name, self.limit_s = record, name, limit_s
        self.begin = time.monotonic()
        self.table = {"state": "failed", "limit_s": limit_s, "seconds": 0.0,
                      "why": "it has not ended", "rows": []}
        record.content["parts"][name] = self.table

    def left(self):
        seconds = self.limit_s - (time.monotonic() - self.begin)
        if seconds <= 0:
            raise OutOfTime
        return seconds

    def row(self, name, state, **more):
        self.table["rows"].append({"name": name, "state": state, **more})
        self.table["seconds"] = round(time.monotonic() - self.begin, 1)
        self.record.write()
        text = " ".join(f"{key}={value}" for key, value in more.items() if key != "why")
        why = f": {more['why']}" if more.get("why") else ""
        self.record.say(f"{state:9} {self.name}: {name} {text}{why}".rstrip())

    def check(self, name, problem, **more):
        """Failed with the problem; passed where that is empty."""
        if problem:
            self.row(name, "failed", why=problem.strip(), **more)
        else:
            self.row(name, "passed", **more)

    def measured(self, name, value, unit, goal=None, most=False, **more):
        """goal: the least that is wanted, or the most."""
        missed = goal is not None and (value > goal if most else value < goal)
        if goal is not None:
            more["goal"] = f"{'<=' if most else '>='} {goal}"
        self.row(name, "missed" if missed else "measured", value=value, unit=unit, **more)

    def skipped(self, name, why):
        self.row(name, "skipped", why=why)

    def end(self, state=None, why=""):
        """The state is that of the worst row, unless it is given."""
        found = {row["state"] for row in self.table["rows"]}
        if not found and not state:
            state, why = "failed", "it found nothing"
        self.table["state"] = state or next(one for one in STATES if one in found)
        self.table["seconds"] = round(time.monotonic() - self.begin, 1)
        del self.table["why"]
        if why:
            self.table["why"] = why
        self.record.write()


def last_lines(text, count=12):
    return "\n".join(text.strip().splitlines()[-count:])

