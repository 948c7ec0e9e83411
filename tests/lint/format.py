"""C++ is formatted as clang-format 14 formats it. `format.py --fix` formats the tree in place."""

import pathlib
import re
import shutil
import subprocess
import sys

import tree

TOOL = "clang-format-14"
STYLE = pathlib.Path(__file__).resolve().parents[2] / ".clang-format"


def run(root, files, *options):
    paths = [str(path) for path in files if path.suffix in tree.CPP]
    if not paths:
        return ""
    return subprocess.run(
        [TOOL, f"--style=file:{STYLE}", *options, *paths], cwd=root, capture_output=True, text=True
    ).stderr


def formatted(root, files):
    errors = run(root, files, "--dry-run", "-Werror")
    at = re.findall(r"^(\S+?):(\d+):\d+: error: (.*)", errors, re.MULTILINE)
    found = {}
    for path, line, text in at:  # the first of each file will do
        found.setdefault(path, f"{path}:{line}: {text}; tests/lint/format.py --fix")
    if errors and not found:
        return [errors]
    return list(found.values())


EXAMPLES = [
    ("a.cpp", "int main() { return 0; }\n", None),
    ("a.cpp", "int  main(){return 0;}\n", "a.cpp:1:"),
    ("a.hpp", "int *a;\n", "a.hpp:1:"),
    ("a.py", "a  =1\n", None),
]

if __name__ == "__main__":
    if not shutil.which(TOOL):
        print(f"{TOOL} is not installed (tests/setup.sh installs it)")
        sys.exit(tree.SKIPPED)
    if sys.argv[1:] == ["--fix"]:
        root = STYLE.parent
        print(run(root, tree.tracked(root), "-i"), end="")
    else:
        tree.main(formatted, EXAMPLES)
