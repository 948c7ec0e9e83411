"""What gpu_check's part `rates` measures, by PyTorch: copies, products, launches. Prints the same
lines of JSON."""

import argparse
import json
import statistics
import time

import torch


def tell(name, unit, value):
    print(json.dumps({"name": name, "unit": unit, "value": value}), flush=True)


class Clock:
    """Seconds of a call: on the GPU's clock where there is one."""

    def __init__(self, device):
        self.cuda = device == "cuda"

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def seconds_of(self, times, call):
        for _ in range(3):
            call()
        taken = []
        for _ in range(times):
            if not self.cuda:
                begin = time.perf_counter()
                call()
                taken.append(time.perf_counter() - begin)
                continue
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            call()
            events[1].record()
            torch.cuda.synchronize()
            taken.append(events[0].elapsed_time(events[1]) / 1e3)
        return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    clock, times = Clock(options.device), 1 if options.quick else 10
    tell("version", "PyTorch", torch.__version__)

    source = torch.full((1 << (14 if options.quick else 29),), 1.5, device=options.device)
    to = torch.empty_like(source)
    seconds = clock.seconds_of(times, lambda: to.copy_(source))
    tell("copy", "GB/s, read and written", 2 * source.nbytes / seconds / 1e9)
    del source, to

    side = 64 if options.quick else 8192
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        a, b, out = (torch.rand(side, side, device=options.device).to(dtype) * 2 - 1
                     for _ in range(3))
        seconds = clock.seconds_of(times, lambda: torch.mm(a, b, out=out))
        tell(f"product {name}", "TFLOP/s", 2 * side**3 / seconds / 1e12)

    small, launches, taken = torch.rand(64, device=options.device), 400, []
    for _ in range(3 if options.quick else 50):
        begin = time.perf_counter()
        for _ in range(launches):
            torch.mul(small, 1.0, out=small)
        taken.append((time.perf_counter() - begin) / launches)
        clock.synchronize()
    tell("launch", "us of the host", statistics.median(taken) * 1e6)


if __name__ == "__main__":
    main()
