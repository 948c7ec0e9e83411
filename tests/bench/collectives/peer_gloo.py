"""Times all-reduce over torch.distributed's Gloo (float, sum, in place) and prints JSON.

Started once a rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 reports.
A round trip counts as long as it took the slower rank; the median of all is printed.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values = torch.zeros(options.bytes // 4)
    seconds = torch.zeros(options.iterations, dtype=torch.float64)
    for step in range(-options.iterations // 10, options.iterations):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        if step >= 0:
            seconds[step] = time.perf_counter() - begin
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        median = statistics.median(seconds.tolist()) * 1e6
        print(json.dumps({"bytes": options.bytes, "median_us": median}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
