"""Text of a folder of Hugging Face transformers, greedy, with its cache: the peer of generate.py.

Prints JSON: seconds of a generation of --short and of --long tokens, the tokens of the long one,
and bytes a second that a copy moves (read and written) with as many threads.
"""

import argparse
import json
import time

import quiet_transformers  # noqa: F401  first

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def bandwidth(clock, size=256 << 20, tries=8):
    here, there = torch.ones(size // 4), torch.ones(size // 4)
    best = float("inf")
    for _ in range(tries):
        begin = clock()
        there.copy_(here)
        best = min(best, clock() - begin)
    return 2 * size / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--short", type=int, required=True)
    parser.add_argument("--long", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--processor", action="store_true", help="seconds of all threads")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # every text has as many tokens
    tokenizer = AutoTokenizer.from_pretrained(options.model, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.decode([0])
    with open(options.prompts, encoding="utf-8") as lines:
        given = tokenizer(lines.read().splitlines(), return_tensors="pt", padding=True)

    def generate(tokens):
        begin = clock()
        with torch.inference_mode():
            found = model.generate(**given, do_sample=False, max_new_tokens=tokens)
        return clock() - begin, found[:, given.input_ids.shape[1]:].tolist()

    generate(2)
    short, _ = generate(options.short)
    long, tokens = generate(options.long)
    print(json.dumps({"short": short, "long": long, "tokens": tokens,
                      "bandwidth": bandwidth(clock)}))


if __name__ == "__main__":
    main()
