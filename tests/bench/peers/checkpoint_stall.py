"""Steps of a GPT that saves with torch.distributed.checkpoint.async_save; when each one ended."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed
import torch.distributed.checkpoint as checkpoint
from gpt import Gpt
from loop import Shape, batches, optimizer_of


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--shape", type=json.loads, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    shape = Shape(**options.shape)
    model = Gpt(shape)
    optimizer = optimizer_of(list(model.parameters()))
    feed = batches(options.data, shape)
    pending, ends, stalls = None, [], []
    for step in range(1, options.steps + 1):
        tokens, targets = next(feed)
        loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step % options.every == 0:
            begin = time.perf_counter()
            if pending is not None:
                pending.result()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            pending = checkpoint.async_save(
                state, checkpoint_id=str(Path(options.out, f"step-{step}"))
            )
            stalls.append(time.perf_counter() - begin)
        ends.append(time.perf_counter())
    pending.result()
    print(json.dumps({"ends": ends, "stalls": stalls}), flush=True)
    sys.stdout.flush()
    os._exit(0)  # its process group has threads that outlive main


if __name__ == "__main__":
    main()
