"""A wrapper of an interface forwards every virtual function: one that it does not know would end
in the interface's default, and the component would never hear of it."""

import re

import tree

CLASS = re.compile(r"^(?:class|struct)(?: TESSERA_API)? (\w+)(?: final)?(?: : [^{]*)? \{", re.M)
WRAPPER = re.compile(r"^struct \w+ final : Named<(\w+)> \{", re.M)


def body(text, begin):
    end = re.compile(r"^\};", re.M).search(text, begin)
    return text[begin : end.start() if end else len(text)]


def forwards(root, files):
    virtuals, found = {}, []
    sources = {p: (root / p).read_text() for p in files if p.suffix in tree.CPP}
    for text in sources.values():
        for match in CLASS.finditer(text):
            count = len(re.findall(r"\bvirtual (?!~)", body(text, match.end())))
            virtuals[match[1]] = max(count, virtuals.get(match[1], 0))
    for path, text in sources.items():
        for match in WRAPPER.finditer(text):
            forwarded = len(re.findall(r"\boverride\b", body(text, match.end())))
            wanted = virtuals.get(match[1], 0)
            if forwarded != wanted:
                line = text.count("\n", 0, match.start()) + 1
                found.append(
                    f"{path}:{line}: forwards {forwarded} of {wanted} functions of {match[1]}"
                )
    return found


INTERFACE = """class Observer {
 public:
  virtual ~Observer();
  virtual void on(int) {}
  virtual void on(long) {}
};
"""
ONE = "struct NamedObserver final : Named<Observer> {\n  void on(int) override;\n};\n"
BOTH = ONE.replace("};", "  void on(long) override;\n};")
EXAMPLES = [
    ("a.cpp", INTERFACE + ONE, "a.cpp:7: forwards 1 of 2 functions of Observer"),
    ("a.cpp", INTERFACE + BOTH, None),
    ("a.cpp", "struct NamedX final : Named<X> {\n  void f() override;\n};\n", "forwards 1 of 0"),
]

if __name__ == "__main__":
    tree.main(forwards, EXAMPLES)
