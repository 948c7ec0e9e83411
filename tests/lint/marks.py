"""No marks of unfinished work: what is open belongs into an issue, not into the source."""

import re

import tree

# Written apart, so that this file does not catch itself.
WORDS = ["TO" + "DO", "FIX" + "ME", "X" + "XX"]
MARK = re.compile(r"\b(" + "|".join(WORDS) + r")\b")


def marks(root, files):
    found = []
    for path in files:
        for number, line in tree.lines(root, path):
            match = MARK.search(line)
            if match:
                found.append(f"{path}:{number}: left-over {match.group(1)}")
    return found


EXAMPLES = [(f"a.{s}", f"// {w}: later\n", f"a.{s}:1: left-over {w}") for s in ("cpp", "md")
            for w in WORDS] + [
    ("a.sh", 'mktemp "/tmp/a.' + "X" * 6 + '"\n', None),
    ("a.cpp", "int todo = 0;\n", None),
]

if __name__ == "__main__":
    tree.main(marks, EXAMPLES)
