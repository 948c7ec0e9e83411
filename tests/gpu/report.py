#!/usr/bin/env python3
"""Writes into the READMEs what has run on a GPU, from tests/gpu/results/*.json.

A page has places for it:

    <!-- gpu:state -->a sentence, also within a line<!-- /gpu -->
    <!-- gpu:tables -->

    tables, as many lines as it takes

    <!-- /gpu -->

report.py fills them, --check only compares; --add FILE first takes the results of a run.
"""

import argparse
import json
import re
import sys
import tempfile
import textwrap
from pathlib import Path

from record import STATES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results"
PLACE = re.compile(r"(<!-- gpu:(\w+) -->)(.*?)(<!-- /gpu -->)", re.DOTALL)
NOT_YET = "built and emulated, not yet run on a GPU"
SEVERAL = "Several GPUs have never run."


class Refused(Exception):
    pass


def load(path):
    content = json.loads(path.read_text())
    if content.get("schema") != 1:
        raise Refused(f"{path}: no results of tests/gpu/run.sh")
    about = content["about"]
    if about["quick"] or about["device_type"] != "cuda":
        raise Refused(f"{path}: of a rehearsal, which tells nothing about a GPU")
    missing = [key for key in ("gpu", "driver", "date", "commit") if not about.get(key)]
    if missing:
        raise Refused(f"{path}: without {', '.join(missing)}")
    return content


def all_results(folder):
    """Newest first."""
    found = [load(path) for path in folder.glob("*.json")] if folder.exists() else []
    return sorted(found, key=lambda one: one["about"]["date"], reverse=True)


def rows_of(content):
    return [(name, row) for name, part in content["parts"].items() for row in part["rows"]]


def machine(about):
    return f"{about['gpu']}, driver {about['driver']}, {about['date'][:10]}, {about['commit']}"


def state(results):
    """Goes on in a sentence that begins with "it is", within a line."""
    if not results:
        return NOT_YET
    newest = results[0]
    counts = {one: sum(row["state"] == one for _, row in rows_of(newest)) for one in STATES}
    gpu = newest["about"]["gpu"].removeprefix("NVIDIA ")
    return (f"tested on one {gpu} ({newest['about']['date'][:10]}): "
            f"{counts['passed']} passed, {counts['failed']} failed")


def number(value):
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(heads, lines):
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
                     + ["| " + " | ".join(line) + " |" for line in lines])


def parts_table(content):
    lines = []
    for name, part in content["parts"].items():
        counts = [f"{count} {one}" for one in STATES
                  if (count := sum(row["state"] == one for row in part["rows"]))]
        lines.append([name, part["state"], ", ".join(counts), f"{part['seconds']:.0f}"])
    return table(("part", "state", "rows", "s"), lines)


def measured_table(content):
    lines = []
    for name, row in rows_of(content):
        if "value" not in row or ", round " in row["name"]:
            continue
        more = [f"MFU {row['mfu']:.1%}"] if "mfu" in row else []
        if row.get("gpu_peak_bytes"):
            more.append(f"{row['gpu_peak_bytes'] / 2**30:.1f} GiB")
        if row["state"] == "missed":
            more.append("missed")
        lines.append([name, row["name"], number(row["value"]), row["unit"], row.get("goal", ""),
                      ", ".join(more)])
    return table(("part", "what", "value", "unit", "goal", ""), lines)


def failures(content):
    """Why rows failed."""
    said = [f"- `{name}`, {row['name']}: {' '.join(row['why'].split())[:200]}"
            for name, row in rows_of(content) if row["state"] == "failed"]
    return [textwrap.fill(one, 100, subsequent_indent="  ", break_on_hyphens=False)
            for one in said]


def tables(results):
    """Shows the newest run on each GPU."""
    if not results:
        return f"\n\nNo results: {NOT_YET}. {SEVERAL}\n\n"
    pages, seen = [], set()
    for content in results:
        if content["about"]["gpu"] in seen:
            continue
        seen.add(content["about"]["gpu"])
        pages += [f"**{machine(content['about'])}.** {SEVERAL}", parts_table(content)]
        pages += ["\n".join(failures(content))] if failures(content) else []
        pages.append(measured_table(content))
    return "\n\n" + "\n\n".join(pages) + "\n\n"


def filled(page, results):
    makers = {"state": state, "tables": tables}
    unknown = [kind for _, kind, _, _ in PLACE.findall(page) if kind not in makers]
    if unknown:
        raise Refused(f"gpu:{unknown[0]} is none of {', '.join(makers)}")
    return PLACE.sub(lambda m: m[1] + makers[m[2]](results) + m[4], page)


def pages(root):
    """READMEs with places, of this tree's own folders."""
    folders = ("sdk", "kernel", "plugins", "configs", "examples", "tests")
    found = [root / "README.md", *(path for name in folders
                                   for path in (root / name).rglob("README.md"))]
    return [path for path in sorted(found) if path.exists() and PLACE.search(path.read_text())]


def update(root, results, check):
    """The pages that are not as report.py makes them."""
    stale = []
    for path in pages(root):
        page = path.read_text()
        if (made := filled(page, results)) != page:
            stale.append(path)
            if not check:
                path.write_text(made)
    return stale


def with_older(new, old):
    """What a file has after a run of some parts (--only): of one program on one machine, so the
    other parts stay."""
    same = all(new["about"][key] == old["about"][key] for key in ("commit", "gpu", "driver"))
    if same:
        return {**new, "parts": {**old["parts"], **new["parts"]}}
    if lost := [name for name in old["parts"] if name not in new["parts"]]:
        raise Refused(f"the results of that day ({machine(old['about'])}) have parts that these "
                      f"({machine(new['about'])}) have not: {', '.join(lost)}; run all parts")
    return new


def add(path, folder):
    content = load(path)
    about = content["about"]
    gpu = re.sub(r"\W+", "-", about["gpu"]).strip("-").lower()
    folder.mkdir(exist_ok=True)
    made = folder / f"{about['date'][:10]}-{gpu}.json"
    if made.exists():
        content = with_older(content, load(made))
    made.write_text(json.dumps(content, indent=1) + "\n")
    return made


MADE_UP = {
    "schema": 1,
    "about": {"gpu": "NVIDIA H100 80GB", "driver": "580.1", "date": "2031-02-03T04:05:06+00:00",
              "commit": "abc123", "quick": False, "device_type": "cuda"},
    "parts": {"kit": {"state": "failed", "limit_s": 90, "seconds": 61.2, "rows": [
        {"name": "add fp32", "state": "passed"},
        {"name": "matmul bf16", "state": "failed", "why": "value 3 is\nnan"}]},
        "pytorch": {"state": "missed", "limit_s": 180, "seconds": 170.0, "rows": [
            {"name": "speed", "state": "missed", "value": 0.93, "unit": "ratio", "goal": ">= 1.0"},
            {"name": "ours, round 1", "state": "measured", "value": 5.0, "unit": "tokens/s"},
            {"name": "ours", "state": "measured", "value": 123456.0, "unit": "tokens/s",
             "mfu": 0.4123, "gpu_peak_bytes": 3 << 30}]}},
}
BEFORE = """A <!-- gpu:state -->old<!-- /gpu -->.
<!-- gpu:tables -->

old

<!-- /gpu -->
"""
AFTER = """A <!-- gpu:state -->tested on one H100 80GB (2031-02-03): 1 passed, 1 failed\
<!-- /gpu -->.
<!-- gpu:tables -->

**NVIDIA H100 80GB, driver 580.1, 2031-02-03, abc123.** Several GPUs have never run.

| part | state | rows | s |
|---|---|---|---|
| kit | failed | 1 failed, 1 passed | 61 |
| pytorch | missed | 1 missed, 2 measured | 170 |

- `kit`, matmul bf16: value 3 is nan

| part | what | value | unit | goal |  |
|---|---|---|---|---|---|
| pytorch | speed | 0.93 | ratio | >= 1.0 | missed |
| pytorch | ours | 123,456 | tokens/s |  | MFU 41.2%, 3.0 GiB |

<!-- /gpu -->
"""


def refuses(why, call, *words):
    try:
        call(*words)
    except Refused as refused:
        assert why in str(refused), refused
    else:
        raise AssertionError(f"taken: {words}")


def self_test():
    """Both states of a made-up tree, and files that are refused."""
    with tempfile.TemporaryDirectory() as folder:
        root, results = Path(folder), Path(folder, "results")
        page = root / "README.md"
        page.write_text(BEFORE)
        assert update(root, all_results(results), check=True) == [page] and NOT_YET not in BEFORE
        assert page.read_text() == BEFORE
        update(root, all_results(results), check=False)
        assert page.read_text().count(NOT_YET) == 2, page.read_text()
        assert update(root, all_results(results), check=True) == []
        run = root / "run.json"
        run.write_text(json.dumps(MADE_UP))
        assert add(run, results).name == "2031-02-03-nvidia-h100-80gb.json"
        assert update(root, all_results(results), check=True) == [page]
        update(root, all_results(results), check=False)
        assert page.read_text() == AFTER, page.read_text()
        # A part again: the others stay, unless the program is another.
        kit = {"kit": {"state": "passed", "limit_s": 90, "seconds": 1.0, "rows": []}}
        later = {**MADE_UP["about"], "date": "2031-02-03T05:00:00+00:00"}
        run.write_text(json.dumps({**MADE_UP, "about": later, "parts": kit}))
        wanted = {**MADE_UP, "about": later, "parts": {**MADE_UP["parts"], **kit}}
        assert all_results(results) == [MADE_UP]
        add(run, results)
        assert all_results(results) == [wanted], all_results(results)
        other = {**later, "commit": "def456"}
        run.write_text(json.dumps({**MADE_UP, "about": other, "parts": kit}))
        refuses("have not: pytorch; run all parts", add, run, results)
        assert all_results(results) == [wanted]
        run.write_text(json.dumps({**MADE_UP, "about": other}))
        add(run, results)
        assert all_results(results) == [{**MADE_UP, "about": other}]
        for wrong, why in (({"quick": True}, "rehearsal"), ({"device_type": "x"}, "rehearsal"),
                           ({"gpu": ""}, "without gpu")):
            run.write_text(json.dumps({**MADE_UP, "about": {**MADE_UP["about"], **wrong}}))
            refuses(why, add, run, results)
        refuses("gpu:speed is none of state, tables", filled,
                "<!-- gpu:speed --><!-- /gpu -->", [])
    print("self-test: passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="change nothing; fail where one would")
    parser.add_argument("--add", type=Path, metavar="FILE", help="results.json of a run on a GPU")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    try:
        if options.add:
            print(add(options.add, RESULTS).relative_to(ROOT))
        stale = update(ROOT, all_results(RESULTS), options.check)
        if not pages(ROOT):
            raise Refused("no README has a place for results")
    except Refused as refused:
        sys.exit(f"report: {refused}")
    for path in stale:
        print(f"{path.relative_to(ROOT)}: " + ("is not what report.py makes" if options.check
                                               else "written"))
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
