"""The products of experts in PyTorch: a loop of matrix products, and `grouped_mm` where it runs.

Reads one line of JSON (layers, loads, dtype, threads, seconds) and prints milliseconds by name.
"""

import json
import statistics
import sys
import time

import torch

PRODUCTS = ("forward", "input_gradient", "weight_gradient")


def loop(product, x, y, weight, sums, ends):
    begin = 0
    for e, end in enumerate(ends):
        if product == "forward":
            torch.mm(x[begin:end], weight[e], out=y[begin:end])
        elif product == "input_gradient":
            torch.mm(y[begin:end], weight[e].T, out=x[begin:end])
        elif sums.dtype == x.dtype:
            sums[e].addmm_(x[begin:end].T, y[begin:end])
        else:
            sums[e] += x[begin:end].T @ y[begin:end]
        begin = end


def grouped(product, x, y, weight, sums, ends):
    offsets = torch.tensor(ends, dtype=torch.int32)
    if product == "forward":
        torch._grouped_mm(x, weight, offs=offsets)
    elif product == "input_gradient":
        torch._grouped_mm(y, weight.transpose(-2, -1), offs=offsets)
    else:
        sums.add_(torch._grouped_mm(x.T, y, offs=offsets))


def milliseconds(run, least):
    """The median of at least five runs that take `least` seconds together."""
    run()
    taken = []
    while len(taken) < 5 or sum(taken) < least:
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken)


def main():
    wanted = json.loads(sys.stdin.readline())
    torch.set_num_threads(wanted["threads"])
    dtype = getattr(torch, wanted["dtype"])
    found = {}
    for name, (inner, outer) in wanted["layers"].items():
        for kind, load in wanted["loads"].items():
            ends = [sum(load[: e + 1]) for e in range(len(load))]
            x = torch.randn(ends[-1], inner, dtype=dtype)
            y = torch.randn(ends[-1], outer, dtype=dtype)
            weight = torch.randn(len(load), inner, outer, dtype=dtype)
            sums = torch.zeros(len(load), inner, outer)
            for product in PRODUCTS:
                for how, function in (("loop", loop), ("grouped_mm", grouped)):
                    try:
                        found[f"{how}/{name}/{product}/{kind}"] = milliseconds(
                            lambda: function(product, x, y, weight, sums, ends), wanted["seconds"]
                        )
                    except (AttributeError, NotImplementedError, RuntimeError) as error:
                        print(f"{how}: {str(error).splitlines()[0]}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    with torch.no_grad():
        main()
