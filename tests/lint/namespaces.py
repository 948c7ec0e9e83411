"""What a test file keeps to itself stands in a namespace of the file's name: several files of a
folder are compiled as one, and an unnamed namespace would mix them up."""

import re

import tree

UNNAMED = re.compile(r"^namespace \{", re.M)


def namespaces(root, files):
    found = []
    for path in files:
        if path.parts[0] != "tests" or not path.name.endswith("_test.cpp"):
            continue
        text = (root / path).read_text()
        for match in UNNAMED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: an unnamed namespace; write namespace {path.stem}")
    return found


EXAMPLES = [
    ("tests/unit/a_test.cpp", "namespace {\n}\n", "tests/unit/a_test.cpp:1: an unnamed"),
    ("tests/unit/a_test.cpp", "namespace a_test {\n}\n", None),
    ("kernel/a.cpp", "namespace {\n}\n", None),
]

if __name__ == "__main__":
    tree.main(namespaces, EXAMPLES)
