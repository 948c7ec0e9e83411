"""Lets a CUDA build of PyTorch be imported without the CUDA libraries.

PyPI carries only CUDA builds for Linux x86-64. Their CPU half is complete, but the loader wants
every vendor library that the CUDA half names, some gigabytes of them. None of their functions
is needed on a CPU, so a stub library of the same name goes beside PyTorch's own libraries: it
has the symbols that PyTorch asks for, and each of them answers 100, cudaErrorNoDevice. PyTorch
then finds no device, and torch.cuda.is_available() is False.

Usage: cuda_stubs.py FOLDER-OF-TORCH/lib    (needs cc, nm and readelf)
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

NO_DEVICE = 100
VENDOR = re.compile(r"lib(cu|nv|nccl)")
VENDOR_SYMBOL = re.compile(r"(cu|nccl|nv)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_libraries(libraries):
    """The vendor libraries that no file of the folder provides."""
    names = set()
    for library in libraries:
        names.update(re.findall(r"\(NEEDED\).*\[(.+?)\]", output("readelf", "-d", str(library))))
    present = {library.name for library in libraries}
    return sorted(name for name in names - present if VENDOR.match(name))


def undefined_symbols(libraries):
    """Pairs (symbol, version or ""), less those that one of the libraries defines."""
    wanted, defined = set(), set()
    for library in libraries:
        for line in output("nm", "-D", str(library)).splitlines():
            *_, kind, name = line.split()
            symbol, _, version = name.partition("@")
            if kind == "U":
                wanted.add((symbol, version))
            elif kind != "w":
                defined.add(symbol)
    return {(symbol, version) for symbol, version in wanted if symbol not in defined}


def build(folder, name, version, symbols):
    """Compiles one stub; the version node must be the one that PyTorch was linked against."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "stub.c")
        source.write_text("".join(f"int {s}(void) {{ return {NO_DEVICE}; }}\n" for s in symbols))
        command = ["cc", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w"]
        command.append(f"-Wl,-soname,{name}")
        if version:
            script = Path(scratch, "stub.map")
            script.write_text(f"{version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script,{script}")
        subprocess.run([*command, str(source), "-o", str(folder / name)], check=True)


def main():
    folder = Path(sys.argv[1])
    libraries = [path for path in folder.iterdir() if ".so" in path.name and path.is_file()]
    names = needed_libraries(libraries)
    symbols = undefined_symbols(libraries)

    # Which library a symbol without a version belongs to is not recorded: all of them get it.
    plain = sorted(s for s, version in symbols if not version and VENDOR_SYMBOL.match(s))
    for name in names:
        # A library's version node carries its own file name, or its stem in capitals (NVSHMEM).
        stem = re.match(r"lib([a-z]+)", name).group(1).upper()
        version = next((v for _, v in symbols if v == name), "")
        version = version or next((v for _, v in symbols if v == stem), "")
        own = sorted(s for s, v in symbols if v == version) if version else plain
        build(folder, name, version, own)
    print(f"stubs: {' '.join(names)}")


if __name__ == "__main__":
    main()
