"""No source file over 600 lines, no line over 100 columns, no tab or trailing blank.

In Markdown it counts only columns, and skips tables, which cannot be broken."""

import tree

MAX_LINES = 600
MAX_COLUMNS = 100


def size(root, files):
    found = []
    for path in files:
        source = path.suffix in tree.SOURCE or path.name == "CMakeLists.txt"
        if not source and path.suffix != ".md":
            continue
        text = tree.lines(root, path)
        if not source:
            text = [(number, line.rstrip()) for number, line in text if not line.startswith("|")]
        count = len(text) - 1 if text and not text[-1][1] else len(text)
        if source and count > MAX_LINES:
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
    ("a.md", "word\n" * 601 + "| " + "x" * 200 + " |\n", None),
    ("a.md", "word " * 21 + "\n", "a.md:1: 104 columns"),
]

if __name__ == "__main__":
    tree.main(size, EXAMPLES)
