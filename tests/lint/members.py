"""A class has at most 12 data members: one with more holds more than one concept.

The names of data members end in "_". A struct is data to be handed over, and may have more."""

import re

import tree

MAX_MEMBERS = 12
FOLDERS = ("kernel/train/", "kernel/launch/", "kernel/comm/control_plane/")

CLASS = re.compile(r"^ *class (?:TESSERA_API )?(\w+)[^;{}()]*\{", re.M)
NO_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
INSIDE = r"(?:[^(){}]|\(\)|\{\})+"
INNERMOST = re.compile(rf"\({INSIDE}\)|\{{{INSIDE}\}}|<[^<>{{}};]*>")
DEFINITION = re.compile(r"\(\)(?:[^;{}]|(?<=\w)\{\})*(?<=\s)\{\}")
NAME = re.compile(r"\b[a-z]\w*_(?=\s*(?:[,{\[]|$))")


def body(text, begin):
    """What follows an opening brace, up to the one that closes it."""
    depth = 1
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin:i]
    return text[begin:]


def members(text):
    """Names of the data members that the body of a class declares itself."""
    before = None
    while before != text:
        before = text
        text = INNERMOST.sub(lambda m: {"(": "()", "{": "{}", "<": ""}[m[0][0]], text)
    names = []
    for declared in re.split(r";|\b\w+:(?!:)", DEFINITION.sub(";", text)):
        declared = re.sub(r"=[^,]*", "", declared)
        if "()" not in declared:
            names += NAME.findall(declared)
    return names


def check(root, files):
    found = []
    for path in files:
        if path.suffix not in tree.CPP or not str(path).startswith(FOLDERS):
            continue
        text = NO_CODE.sub("", (root / path).read_text())
        for match in CLASS.finditer(text):
            count = len(members(body(text, match.end())))
            line = text.count("\n", 0, match.start()) + 1
            if count > MAX_MEMBERS:
                found.append(
                    f"{path}:{line}: {match[1]} has {count} data members, at most {MAX_MEMBERS}"
                )
    return found


def example(members):
    return f"class A final : public B {{\n public:\n  A();\n\n private:\n{members}}};\n"


PLAIN = "".join(f"  int m{i}_;\n" for i in range(11))
OTHERS = """  explicit A(int more_) : m0_(more_), m1_{more_}, m2_() { int local_ = 0; }
  int m0() const { return m0_; }
  A& operator=(const A& of_) = delete;
  struct Part {
    int a_, b_;
  };
  using Call_ = int;
  void call(int more_, std::map<int, int> of_ = {}) const;
"""
EXAMPLES = [
    ("kernel/train/a.hpp", example(PLAIN + "  int last_;\n"), None),
    ("kernel/train/a.hpp", example(OTHERS + PLAIN + "  int last_;\n"), None),
    ("kernel/train/a.hpp", example(PLAIN + "  int a_ = 0, b_ = 0;\n"), "a.hpp:1: A has 13"),
    ("kernel/train/a.cpp", example(OTHERS + PLAIN + "  i64 a_{1}, b_;  // c_\n"), "A has 13"),
    ("kernel/launch/a.hpp", example(PLAIN + "  T a_ = f(1);\n  X<Y()> b_;\n"), "A has 13"),
    ("kernel/train/a.hpp", example(PLAIN + "  struct {\n    int c_;\n  } a_;\n  int b_;\n"), "13"),
    ("kernel/model/a.hpp", example(PLAIN + "  int a_, b_;\n"), None),
]

if __name__ == "__main__":
    tree.main(check, EXAMPLES)
