"""What somebody else wrote comes in and goes out through one door each: JSON is read by parse_json,
which bounds its depth, and printed by kernel/cli/show.hpp, which lets no control character pass."""

import re

import tree

FOLDERS = ("kernel", "plugins", "sdk")
PRINT = re.compile(
    r"\bfmt::print\(|\bstd::(cout|cerr|clog)\b|\b(std::)?(printf|fprintf|puts|fputs|putchar)\(|"
    r"\bfwrite\(.*\bstd(out|err)\b")
PARSE = re.compile(r"\b(nlohmann::\w+|Json\w*|json)::(parse|sax_parse|accept)\(")
# The doors; a child process that writes into a pipe; lines of a run, which pass `readable`.
MAY_PRINT = {"kernel/cli/show.cpp", "kernel/plugin/check.cpp",
             "plugins/observers/console/console.cpp"}
MAY_PARSE = {"sdk/include/tessera/io/parse_json.hpp"}


def outsiders(root, files):
    found = []
    for path in files:
        name = path.as_posix()
        if path.suffix not in tree.CPP or path.parts[0] not in FOLDERS:
            continue
        if name.startswith("sdk/template"):
            continue
        for number, line in tree.lines(root, path):
            code = line.split("//")[0]
            if PRINT.search(code) and name not in MAY_PRINT:
                found.append(f"{path}:{number}: prints by itself: use kernel/cli/show.hpp")
            if PARSE.search(code) and name not in MAY_PARSE:
                found.append(f"{path}:{number}: reads JSON by itself:"
                             " use tessera/io/parse_json.hpp")
    return found


EXAMPLES = [
    ("kernel/a.cpp", 'fmt::print("{}", name);\n', "a.cpp:1: prints by itself"),
    ("kernel/a.cpp", "std::cout << name;\n", "a.cpp:1: prints by itself"),
    ("plugins/a.cpp", "std::fwrite(p, 1, n, stdout);\n", "a.cpp:1: prints by itself"),
    ("kernel/a.cpp", "nlohmann::json::parse(text);\n", "a.cpp:1: reads JSON by itself"),
    ("plugins/a.cpp", "JsonTree::parse(text);\n", "a.cpp:1: reads JSON by itself"),
    ("kernel/a.cpp", "// fmt::print(\nparse_json<JsonTree>(text); snprintf(a, 1, b);\n", None),
    ("kernel/a.cpp", "std::fwrite(p, 1, n, file);\n", None),
    ("tests/a.cpp", 'fmt::print("{}", name);\n', None),
]

if __name__ == "__main__":
    tree.main(outsiders, EXAMPLES)
