"""No source file over 600 lines, no line over 100 columns, no tab or trailing blank."""

import tree

MAX_LINES = 600
MAX_COLUMNS = 100


def size(root, files):
    found = []
    for path in files:
        if path.suffix not in tree.SOURCE and path.name != "CMakeLists.txt":
            continue
        text = tree.lines(root, path)
        count = len(text) - 1 if text and not text[-1][1] else len(text)
        if count > MAX_LINES:
            found.append(f"{path}:{count}: {count} lines, at most {MAX_LINES}")
        for number, line in text:
            if len(line) > MAX_COLUMNS:
                found.append(f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}")
            if "\t" in line or line != line.rstrip():
                found.append(f"{path}:{number}: a tab or a trailing blank")
    return found


EXAMPLES = [
    ("a.cpp", "int a;\n" * 600, None),
    ("a.cpp", "int a;\n" * 601, "601 lines"),
    ("a.py", "#" * 100 + "\n" + "é" * 100 + "\n", None),
    ("a.toml", "#" * 101 + "\n", "a.toml:1: 101 columns"),
    ("CMakeLists.txt", "\n" + "#" * 101 + "\n", "CMakeLists.txt:2: 101 columns"),
    ("a.sh", "true \n", "trailing blank"),
    ("a.hpp", "\tint a;\n", "a tab"),
    ("a.md", "word " * 100 + "\n", None),
]

if __name__ == "__main__":
    tree.main(size, EXAMPLES)
