"""What the lint rules share: the files of the tree, and how a rule is run and tested.

A rule is a function (root, files) -> list of "path:line: text". Each rule's script calls
main(rule, examples); with --self-test it checks that every example is caught, and that the
examples' clean files are not.
"""

import pathlib
import subprocess
import sys
import tempfile

CPP = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
SOURCE = CPP | {".sh", ".py", ".toml", ".cmake"}
SKIPPED = 77  # the exit status that ctest reports as "skipped"


def tracked(root):
    """Paths relative to root, of the files that git tracks and that still exist."""
    # The checkout may belong to another user, such as the one outside of a container.
    command = ["git", "-c", f"safe.directory={root.resolve()}", "-C", root, "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [p for p in map(pathlib.Path, listed.split("\0")) if (root / p).is_file()]


def lines(root, path):
    """(number, line) of a text file; nothing for a binary one."""
    data = (root / path).read_bytes()
    if b"\0" in data:
        return []
    return list(enumerate(data.decode("utf-8", "replace").split("\n"), 1))


def self_test(rule, examples):
    """examples: (path, text, what the report must contain, or None when the file is clean)."""
    wrong = 0
    for path, text, expected in examples:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            found = rule(root, [pathlib.Path(path)])
        caught = any(expected in line for line in found) if expected else not found
        if not caught:
            wrong += 1
            print(f"self-test: {path} {text[:60]!r}: expected {expected!r}, found {found}")
    print(f"self-test: {len(examples)} examples, {wrong} wrong")
    return 1 if wrong else 0


def main(rule, examples):
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test(rule, examples))
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        print("not a git checkout: nothing says which files belong to the tree")
        sys.exit(SKIPPED)
    found = rule(root, tracked(root))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)
