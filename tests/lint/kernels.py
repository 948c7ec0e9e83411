"""What a kernel for GPUs is written with: gpu.hpp, tensor_cores.hpp, copy_async.hpp, and CUDA's
names of indices, barriers, shuffles and votes. The emulator knows nothing else, so what goes around
it would never be tested here.

Functions of std are those that ran on a GPU. nvcc 13.0 knows few builtins of g++ and takes what
follows another one for unreachable: std::countr_zero is 32 and std::bit_width 0, without a word."""

import re

import tree

FOLDER = "plugins/devices/cuda/"
OWNERS = {FOLDER + name
          for name in ("runtime.hpp", "gpu.hpp", "tensor_cores.hpp", "copy_async.hpp")}
FORBIDDEN = (
    (re.compile(r"\b(__)?asm(__)?\b"), "PTX belongs in tensor_cores.hpp or copy_async.hpp"),
    (re.compile(r"<<<"), "use launch() of gpu.hpp"),
    (re.compile(r"#\s*include\s*<(cub|thrust|cute|cutlass|cooperative_groups|mma\.h|cuda)\b"),
     "the emulator has no library of kernels"),
    (re.compile(r"\batomic[A-Z]\w*\s*\("), "an atomic operation's order, and so its sum, varies"),
    (re.compile(r"\b__shared__\b"), "use shared<T>() of gpu.hpp"),
    (re.compile(r"#\s*include\s*<cuda_\w+\.h>"), "include gpu.hpp"),
    (re.compile(r"\b__builtin_"), "nvcc has few of g++'s builtins, and does not say so"),
)
CALL = re.compile(r"\bstd::(\w+)\s*(?:<[^<>()]*>)?\(")
RAN = {"abs", "bit_cast", "erfc", "exp", "fabs", "fma", "fmin", "log", "log1p", "max", "min",
       "sqrt"}
ON_THE_HOST = {"stable_sort"}


def on_gpus(root, path):
    """Whether a source has functions that run there."""
    return any(re.search(r"__(device|global)__", line) for _, line in tree.lines(root, path))


def kernels(root, files):
    found = []
    for path in files:
        header = path.suffix == ".hpp" and str(path).startswith(FOLDER)
        if str(path) in OWNERS or not (header or path.suffix in {".cu", ".cuh"}):
            continue
        for number, line in tree.lines(root, path):
            code = line.split("//")[0]
            for name in set(CALL.findall(code)) - RAN - ON_THE_HOST if on_gpus(root, path) else ():
                found.append(f"{path}:{number}: std::{name} has not run on a GPU: it may be wrong")
            for pattern, why in FORBIDDEN:
                if pattern.search(code):
                    found.append(f"{path}:{number}: {why}")
    return found


EXAMPLES = [
    ("a.cu", "__global__ void f() { __syncthreads(); }\n", None),
    ("a.cu", 'asm volatile("bar.sync 0;");\n', "PTX"),
    ("a.cu", "f<<<1, 32>>>();\n", "launch()"),
    ("a.cu", "#include <cub/cub.cuh>\n", "library"),
    ("a.cu", "#include <cooperative_groups.h>\n", "library"),
    ("a.cu", "atomicAdd(sum, x);  // fast\n", "order"),
    ("a.cu", "__shared__ float x[32];\n", "shared<T>()"),
    ("a.cu", "#include <cuda_fp16.h>\n", "gpu.hpp"),
    ("a.cu", "// as __shared__ memory\n", None),
    ("a.cpp", 'asm("nop");\n', None),
    (FOLDER + "tiles.hpp", 'asm("nop");\n', "PTX"),
    (FOLDER + "copy_async.hpp", 'asm("nop");\n', None),
    ("sdk/tiles.hpp", 'asm("nop");\n', None),
    ("a.cu", "__device__ int f(unsigned x) { return std::countr_zero(x); }\n", "countr_zero"),
    ("a.cu", "__device__ int f(int x) { return std::max<int>(x, 1); }\n", None),
    ("a.cu", "__device__ int f(unsigned x) { return __builtin_ctz(x); }\n", "builtins"),
    (FOLDER + "memory.hpp", "auto made = std::make_shared<int>(1);\n", None),
]

if __name__ == "__main__":
    tree.main(kernels, EXAMPLES)
