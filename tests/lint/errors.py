"""Nobody reads a text to learn what an error is: it has a kind, a rank, a resource and frames
(tessera/error.hpp)."""

import re

import tree

# A search in what an error says, directly or through a view of it.
SEARCH = r"\s*\.\s*(?:find|rfind|find_first_of|starts_with|ends_with|contains|substr)\s*\("
PATTERNS = [
    re.compile(r"(?:what|text)\(\)\s*\)*" + SEARCH),
    re.compile(r"\bstr(?:str|casestr|ncmp)\s*\([^;]*\bwhat\(\)"),
    re.compile(r"regex_(?:search|match)\s*\([^;]*\bwhat\(\)"),
]
# The same by a name that the text is given.
NAMED = re.compile(r"(\w+)\s*=\s*(?:std::string(?:_view)?\()?\w+\.what\(\)\)?;")
WHERE = ("kernel", "sdk/src", "sdk/include", "plugins", "examples")
# A component's text may begin with its key, "data.path: ", which is a contract of the SDK. The
# words of other libraries have no other form.
EXCEPT = ("kernel/train/setup/host_maker.hpp", "sdk/src/parse_json.cpp")
# text() of what is no error.
ERROR = re.compile(r"what\(\)|\b(?:error|failure|thrown|cause)(?:\(\))?(?:\.|->)text\(\)")


def errors(root, files):
    found = []
    for path in files:
        product = path.as_posix().startswith(WHERE) and path.name != "test.cpp"
        if path.suffix not in tree.CPP or not product or path.as_posix() in EXCEPT:
            continue
        text = (root / path).read_text()
        for pattern in PATTERNS:
            for match in pattern.finditer(text):
                begin = text.rfind("\n", 0, match.start()) + 1
                if not ERROR.search(text[begin : match.end()]):
                    continue
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: searches the text of an error")
        for match in NAMED.finditer(text):
            rest = text[match.end() : text.find("\n}\n", match.end())]
            call = rf"\b{match[1]}\s*\.\s*(?:find|rfind|starts_with|contains)\s*\((?!'\\n')"
            if re.search(call, rest):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: searches the text of an error")
    return sorted(found)


EXAMPLES = [
    ("kernel/a.cpp", "if (std::string_view(error.what()).find(name) != npos) throw;\n", "a.cpp:1"),
    ("sdk/src/a.cpp", "x();\nif (error.text().starts_with(\"out of\")) y();\n", "a.cpp:2"),
    ("plugins/a.cpp", "if (std::strstr(error.what(), \"died\")) throw;\n", "a.cpp:1"),
    ("kernel/a.cpp", "auto t = error.what();\nif (t.starts_with(\"x\")) y();\n}\n", "a.cpp:1"),
    ("kernel/a.cpp", "auto t = error.what();\nlog(t.substr(0, t.find('\\n')));\n}\n", None),
    ("kernel/a.cpp", "log(error.what());\nif (address.text().find(':') == npos) x();\n", None),
    ("kernel/a.cpp", "if (error.kind() == ErrorKind::peer_silent) throw;\n", None),
    ("tests/a.cpp", "EXPECT_NE(std::string(error.what()).find(\"x\"), npos);\n", None),
]

if __name__ == "__main__":
    tree.main(errors, EXAMPLES)
