"""Who may include whom: sdk/ knows no kernel, kernel/ knows no plugin, and a plugin knows
the SDK and its own folder. Devices and communicators may also include their vendor's headers, and
kernels for GPUs what they are written with."""

import os
import re

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# C and POSIX headers; C++ ones are recognised by having neither a folder nor a suffix.
SYSTEM = re.compile(
    r"^(assert|ctype|dirent|dlfcn|errno|fcntl|float|fnmatch|glob|immintrin|inttypes|limits|link"
    r"|math|netdb|poll|pthread|sched|semaphore|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib"
    r"|string|strings|termios|time|unistd|wchar|cxxabi|execinfo|elf|spawn|malloc|x86intrin)\.h$"
    r"|^(sys|arpa|netinet|net|linux|asm)/"
)

# Kinds of plugins that wrap a library: which of its headers they may include.
VENDOR = {
    "devices": re.compile(r""),
    "communicators": re.compile(r""),
    "converters": re.compile(r"^nlohmann/json\.hpp$"),
    "evaluations": re.compile(r"^nlohmann/json\.hpp$"),
    "datasets": re.compile(r"^(nlohmann/json\.hpp|utf8proc\.h)$"),
    "document_stages": re.compile(r"^utf8proc\.h$"),
    "tokenizers": re.compile(r"^(pcre2\.h|utf8proc\.h|sentencepiece\w*\.h|nlohmann/json\.hpp)$"),
}

# What kernels for GPUs of other plugins of this tree may include of plugins/devices/cuda: with them
# the emulator of tests/cuda_emulated runs them too.
KERNEL_HEADERS = {"gpu.hpp", "packs.hpp", "plain_kernel.hpp", "shards.hpp", "update_rule.hpp"}
# And what communicators of GPUs may: CUDA's runtime, and libraries that are opened when needed.
RUNTIME_HEADERS = {"runtime.hpp", "vendor_library.hpp"}


# Which headers of the SDK these are: plugin.hpp, build.hpp, ops.hpp.
MOST_OF_A_LAYER = 3


def is_standard(name):
    return ("/" not in name and "." not in name) or bool(SYSTEM.search(name))


def sdk_include(root, path, quote, name):
    if name.startswith("tessera/testing/"):
        return "sdk/include includes the conformance kit"
    if name.startswith(("tessera/", "fmt/")) or is_standard(name):
        return None
    return "sdk/include may include <tessera/…>, the standard library and fmt only"


def sdk_source_include(root, path, quote, name):
    if name.startswith("tessera/testing/"):
        return "sdk/src includes the conformance kit"
    if name.startswith(("kernel/", "plugins/")) or "../" in name:
        return "sdk/src may include <tessera/…>, its own folder and third parties only"
    if quote == '"' and not name.startswith(("sdk/src/", "tessera/")):
        return 'write it as "sdk/src/…", "tessera/…" or <third/party.hpp>'
    return None


# Folders of kernel/ in the order of kernel/README.md: each knows those before it.
KERNEL = (
    "system config plugin data comm dry model schedule graph checkpoint train planner launch cli"
).split()


def kernel_folder(parts):
    return KERNEL.index(parts[1]) if len(parts) > 2 and parts[1] in KERNEL else None


def kernel_include(root, path, quote, name):
    here, there = kernel_folder(path.parts), kernel_folder(name.split("/"))
    if name.startswith("kernel/") and None not in (here, there) and there > here:
        return f"kernel/{KERNEL[here]} comes before kernel/{KERNEL[there]} (kernel/README.md)"
    if name.startswith("plugins/") or "/plugins/" in name:
        return "kernel/ never includes a plugin"
    if name.startswith("sdk/") and not name.startswith("sdk/src/shared/"):
        return "kernel/ includes <tessera/…> and sdk/src/shared, not what implements the SDK"
    own = name.startswith(("kernel/", "tessera/", "sdk/")) or (root / path.parent / name).is_file()
    if quote == '"' and not own:
        return 'write it as "kernel/…", "tessera/…" or <third/party.hpp>'
    return None


def plugin_include(root, path, quote, name):
    kind, folder = path.parts[1:3]
    own = root / "plugins" / kind / folder
    if name.startswith("tessera/"):
        return None
    if name.startswith(("kernel/", "plugins/", "sdk/")):
        return "a plugin includes <tessera/…> and its own folder only"
    if quote == '"':
        near = (root / path.parent / name, own / name)
        inside = [os.path.realpath(p) for p in near if p.is_file()]
        if any(p.startswith(os.path.realpath(own) + os.sep) for p in inside):
            return None
        if path.parts[1] == "communicators" and name in RUNTIME_HEADERS:
            return None
        if path.suffix == ".cu" and name in KERNEL_HEADERS:
            return None
        return f"not a file of {own.relative_to(root)}"
    if is_standard(name) or name.startswith("fmt/"):
        return None
    if kind in VENDOR and VENDOR[kind].search(name):
        return None
    return f"plugins/{kind} may include no third party but fmt"


def rule_of(path):
    if path.parts[:2] == ("sdk", "include"):
        return sdk_include
    if path.parts[:2] == ("sdk", "src"):
        return sdk_source_include
    if path.parts[0] == "kernel":
        return kernel_include
    if path.parts[0] == "plugins" and len(path.parts) >= 4:
        return plugin_include
    return None


def includes(root, files):
    found = []
    for path in files:
        check = rule_of(path) if path.suffix in tree.CPP else None
        if not check:
            continue
        ours = 0
        for number, line in tree.lines(root, path):
            match = INCLUDE.match(line)
            if not match:
                continue
            if reason := check(root, path, *match.groups()):
                found.append(f"{path}:{number}: includes {match.group(2)}: {reason}")
            ours += match.group(2).startswith("tessera/")
        if path.parts[:2] == ("plugins", "layers") and ours > MOST_OF_A_LAYER:
            found.append(f"{path}: a layer includes at most {MOST_OF_A_LAYER} headers of the SDK")
    return found


EXAMPLES = [
    ("sdk/include/tessera/a.hpp", "#include <vector>\n#include <fmt/core.h>\n", None),
    ("sdk/include/tessera/a.hpp", '#include "tessera/b.hpp"\n', None),
    ("sdk/include/tessera/a.hpp", '#include "kernel/a/b.hpp"\n', "sdk/include may include"),
    ("sdk/include/tessera/a.hpp", "#include <toml++/toml.h>\n", "sdk/include may include"),
    ("sdk/include/tessera/a.hpp", "#include <tessera/testing/a.hpp>\n", "conformance kit"),
    ("sdk/src/a.cpp", '#include "tessera/a.hpp"\n#include <spdlog/spdlog.h>\n', None),
    ("sdk/src/a/a.cpp", '#include "sdk/src/a/a.hpp"\n', None),
    ("sdk/src/a.cpp", '#include "kernel/a/b.hpp"\n', "sdk/src may include"),
    ("sdk/src/a.cpp", '#include "../../kernel/a/b.hpp"\n', "sdk/src may include"),
    ("sdk/src/a/a.cpp", '#include "a.hpp"\n', 'write it as "sdk/src/'),
    ("sdk/src/a.cpp", '#include "tessera/testing/a.hpp"\n', "conformance kit"),
    ("kernel/a/b.cpp", '#include "sdk/src/a.hpp"\n', "not what implements the SDK"),
    ("kernel/a/b.cpp", '#include "sdk/src/shared/a.hpp"\n', None),
    ("kernel/a/b.cpp", '#include "kernel/a/b.hpp"\n#include <toml++/toml.h>\n', None),
    ("kernel/a/b.cpp", '#include "plugins/devices/cpu/x.hpp"\n', "never includes a plugin"),
    ("kernel/a/b.cpp", '#include "../../plugins/devices/cpu/x.hpp"\n', "never includes a plugin"),
    ("kernel/a/b.cpp", '#include "a/b.hpp"\n', 'write it as "kernel/'),
    ("kernel/train/b.cpp", '#include "kernel/comm/b.hpp"\n', None),
    ("kernel/comm/b.cpp", '#include "kernel/train/b.hpp"\n', "comm comes before kernel/train"),
    ("plugins/layers/x/x.cpp", "#include <tessera/layer.hpp>\n#include <cmath>\n", None),
    ("plugins/layers/x/x.cpp", "".join(f"#include <tessera/{n}.hpp>\n" for n in "abcd"), "at most"),
    ("plugins/layers/x/x.cpp", '#include "x.cpp"\n', None),
    ("plugins/layers/x/x.cpp", '#include "../y/y.hpp"\n', "not a file of plugins/layers/x"),
    ("plugins/layers/x/x.cpp", '  #  include "kernel/a/b.hpp"\n', "its own folder only"),
    ("plugins/layers/x/x.cu", '#include "packs.hpp"\n', None),
    ("plugins/layers/x/x.cu", '#include "registration.hpp"\n', "not a file of plugins/layers/x"),
    ("plugins/layers/x/x.cpp", '#include "packs.hpp"\n', "not a file of plugins/layers/x"),
    ("plugins/layers/x/x.cpp", "#include <boost/dll.hpp>\n", "no third party but fmt"),
    ("plugins/devices/x/x.cpp", "#include <dnnl.hpp>\n#include <omp.h>\n", None),
    ("plugins/devices/x/x.cpp", "#include <kernel/a/b.hpp>\n", "its own folder only"),
    ("plugins/tokenizers/x/x.cpp", "#include <pcre2.h>\n", None),
    ("plugins/converters/x/x.cpp", "#include <nlohmann/json.hpp>\n", None),
    ("plugins/converters/x/x.cpp", "#include <pcre2.h>\n", "no third party but fmt"),
    ("plugins/tokenizers/x/x.cpp", "#include <gloo/context.h>\n", "no third party but fmt"),
]

if __name__ == "__main__":
    tree.main(includes, EXAMPLES)
