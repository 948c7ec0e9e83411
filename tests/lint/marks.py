"""No marks of unfinished work: what is open belongs into an issue, not into the source. And no
section of a page that is not in the tree: who reads the source cannot read that."""

import re

import tree

# Written apart, so that this file does not catch itself.
WORDS = ["TO" + "DO", "FIX" + "ME", "X" + "XX"]
MARK = re.compile(r"\b(" + "|".join(WORDS) + r")\b")
PAGE = re.compile(r"\b([A-Z][A-Z-]{3,})(\.md)?,? §")


def marks(root, files):
    found = []
    for path in files:
        for number, line in tree.lines(root, path):
            match = MARK.search(line)
            if match:
                found.append(f"{path}:{number}: left-over {match.group(1)}")
            match = PAGE.search(line)
            if match:
                found.append(f"{path}:{number}: cites {match.group(1)}, which is not in the tree")
    return found


EXAMPLES = [(f"a.{s}", f"// {w}: later\n", f"a.{s}:1: left-over {w}") for s in ("cpp", "md")
            for w in WORDS] + [
    ("a.sh", 'mktemp "/tmp/a.' + "X" * 6 + '"\n', None),
    ("a.cpp", "int todo = 0;\n", None),
    ("a.cpp", "// " + "DESIGN" + " §3: a rule\n", "a.cpp:1: cites DESIGN"),
    ("a.md", "(" + "FACTS" + ".md §1.7)\n", "a.md:1: cites FACTS"),
    ("a.cpp", "// Shoeybi et al. 2019, §3; RFC §1\n", None),
]

if __name__ == "__main__":
    tree.main(marks, EXAMPLES)
