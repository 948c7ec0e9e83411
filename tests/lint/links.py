"""Who may need whom when linking: the order of includes.py, held for symbols. sdk/src needs nothing
of kernel/, a folder of kernel/ nothing of a folder to its right, a plugin nothing of kernel/.

Reads the objects of a build (--build DIR), because a function may be declared in a header of the
SDK and defined anywhere.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import includes
import tree

# Functions of libc in whose place the program has its own.
INTERPOSED = {"_exit", "_Exit"}

ANYTHING = len(includes.KERNEL) + 1  # the conformance kit, which runs parts of the kernel


def level(path):
    """Position from left to right; None where another rule, or none, applies."""
    parts = pathlib.PurePath(path).parts
    if parts[:2] == ("sdk", "src") or parts[0] == "plugins":
        return 0
    if parts[:2] == ("sdk", "testing"):
        return ANYTHING
    if parts[0] == "kernel":
        folder = includes.kernel_folder(parts)
        return ANYTHING if folder is None else folder + 1
    return None


def parsed(listing):
    """(defined, needed) global symbols of the text that `nm -gP` prints for one object."""
    defined, needed = set(), set()
    for line in listing.splitlines():
        name, kind = line.split()[:2]
        (needed if kind in "Uwv" else defined).add(name)
    return defined, needed


def links(objects):
    """objects: {source: what `nm -gP` says of its object} -> problems."""
    symbols = {source: parsed(listing) for source, listing in objects.items()}
    homes = {}
    for source, (defined, _) in symbols.items():
        for name in defined - INTERPOSED:
            homes.setdefault(name, []).append(source)
    found = []
    for source, (_, needed) in sorted(symbols.items()):
        for name in sorted(needed):
            home = min(homes.get(name, []), key=level, default=None)
            if home is not None and level(home) > level(source):
                found.append(f"{source}: needs {name}, which is defined to its right, in {home}")
    return found


def source_of(root, file):
    """The source of an object. Of several that are compiled at a time, their folder and that file's
    name: they are of one folder (tessera_unity)."""
    path = pathlib.Path(file)
    if path.parent.name != "Unity":
        return os.path.relpath(file, root)
    included = re.findall(r'#include "(.*)"', path.read_text())
    sources = [os.path.relpath(source, root) for source in included]
    if len({level(source) for source in sources}) != 1:
        sys.exit(f"{file} has sources of several levels: {sources}")
    return os.path.join(os.path.dirname(sources[0]), path.name)


def missing(sources):
    """The folders that have to be there and are not."""
    folders = ["sdk/src", *(f"kernel/{name}" for name in includes.KERNEL)]
    return [f for f in folders if not any(source.startswith(f + "/") for source in sources)]


def objects_of(root, build):
    """Returns the objects that are built, of those compile_commands.json lists."""
    commands = build / "compile_commands.json"
    if not commands.is_file():
        return {}
    outputs = {}
    for entry in json.loads(commands.read_text()):
        source = source_of(root, entry["file"])
        words = shlex.split(entry["command"])
        output = pathlib.Path(entry["directory"]) / words[words.index("-o") + 1]
        # The fuzzers compile parts of the kernel once more.
        fuzzed = output.is_relative_to((build / "tests").resolve())
        if level(source) is not None and output.is_file() and not fuzzed:
            outputs.setdefault(source, output)  # one is enough of what is compiled for several ISAs
    return outputs


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    outputs = objects_of(root, pathlib.Path(sys.argv[2]))
    if not any(level(source) == 0 for source in outputs):
        print("nothing is built")
        sys.exit(tree.SKIPPED)
    if not_there := missing(outputs):
        sys.exit(f"no object of {', '.join(not_there)} is built")
    listings = {}
    for source, output in outputs.items():
        listings[source] = subprocess.run(
            ["nm", "-gP", output], check=True, capture_output=True, text=True
        ).stdout
    found = links(listings)
    demangled = subprocess.run(
        ["c++filt"], input="\n".join(found), check=True, capture_output=True, text=True
    )
    print(demangled.stdout, end="")
    sys.exit(1 if found else 0)


# Objects as (source, listing), and what the report must contain, None where all is well.
EXAMPLES = [
    ([("sdk/src/a.cpp", "f T 0 1\nmalloc U"), ("kernel/comm/b.cpp", "f U")], None),
    ([("sdk/src/a.cpp", "f U"), ("kernel/cli/log.cpp", "f T 0 1")], "sdk/src/a.cpp: needs f"),
    ([("sdk/src/a.cpp", "f U"), ("kernel/cli/log.cpp", "f W 0 1")], "sdk/src/a.cpp: needs f"),
    ([("sdk/src/a.cpp", "f U"), ("kernel/a.cpp", "f W 0 1"), ("sdk/src/b.cpp", "f W 0 1")], None),
    ([("kernel/comm/a.cpp", "f U"), ("kernel/train/b.cpp", "f T 0 1")], "kernel/comm/a.cpp"),
    ([("kernel/train/a.cpp", "f U"), ("kernel/comm/b.cpp", "f T 0 1")], None),
    ([("kernel/comm/a.cpp", "_exit U"), ("kernel/cli/main.cpp", "_exit T 0 1")], None),
    ([("kernel/train/a.cpp", "f U"), ("sdk/testing/b.cpp", "f T 0 1")], "in sdk/testing/b.cpp"),
    ([("sdk/testing/a.cpp", "f U"), ("kernel/train/b.cpp", "f T 0 1")], None),
    ([("plugins/layers/x/x.cpp", "f U"), ("kernel/comm/b.cpp", "f T 0 1")], "needs f"),
    ([("plugins/layers/x/x.cpp", "f U\ng U"), ("plugins/layers/x/y.cpp", "g T 0 1")], None),
]


def self_test():
    wrong = 0
    for objects, expected in EXAMPLES:
        found = links(dict(objects))
        if not (any(expected in line for line in found) if expected else not found):
            wrong += 1
            print(f"self-test: {objects}: expected {expected!r}, found {found}")
    print(f"self-test: {len(EXAMPLES)} examples, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) != 3 or sys.argv[1] != "--build":
        sys.exit("usage: links.py --self-test | --build DIR")
    main()
