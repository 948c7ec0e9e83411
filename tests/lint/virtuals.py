"""A kind of components has no public virtual function: others would call it past the place that
says who runs, checks what it returns and names whose error it is (sdk/include/tessera/
identified.hpp). Facts about a group that cannot fail are exceptions."""

import re

import tree

FACTS = {"capturable", "host_group", "counts_only"}
CLASS = re.compile(
    r"^class TESSERA_API (\w+) : public (?:Identified|GroupBackend) \{\n(.*?)^\};", re.M | re.S
)
SECTION = re.compile(r"^ (public|protected|private):$", re.M)


def virtuals(root, files):
    found = []
    for path in files:
        if path.suffix != ".hpp":
            continue
        text = (root / path).read_text()
        for match in CLASS.finditer(text):
            section = "private"
            for line in match[2].splitlines():
                if SECTION.match(line):
                    section = line.strip(" :")
                function = re.search(r"\bvirtual [^(~]*?(\w+)\(", line)
                if function and section == "public" and function[1] not in FACTS:
                    number = text.count("\n", 0, text.index(line, match.start())) + 1
                    name = f"{match[1]}::{function[1]}"
                    found.append(f"{path}:{number}: {name} is virtual and public")
    return found


def interface(section, name):
    return f"""class TESSERA_API Router : public Identified {{
 public:
  ~Router() override;
 {section}:
  virtual int {name}() const = 0;
}};
"""


EXAMPLES = [
    ("a.hpp", interface("public", "choices"), "a.hpp:5: Router::choices is virtual and public"),
    ("a.hpp", interface("protected", "do_choices"), None),
    ("a.hpp", interface("private", "do_choices"), None),
    ("a.hpp", interface("public", "capturable"), None),
]

if __name__ == "__main__":
    tree.main(virtuals, EXAMPLES)
