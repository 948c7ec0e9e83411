"""Samples of Megatron-Core's GPTDataset, with masks and positions that begin anew in each document.

samples.py PREFIX LENGTH SEED COUNT FOLDER MASK: prints the time of COUNT samples as JSON; those of
an earlier pass are not counted. With MASK "none" it makes no attention mask, as for kernels that
take bounds. samples.py write PREFIX TOKENS writes a corpus of random documents.
"""

import json
import logging
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy  # noqa: E402
import torch  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import (  # noqa: E402
    BlendedMegatronDatasetBuilder,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig  # noqa: E402
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder  # noqa: E402

EOD = 50256


class Ids:
    """As much of a tokenizer as a dataset asks for."""

    vocab_size, eod, pad = 50257, EOD, EOD
    unique_identifiers = {"class": "Ids"}


def write(prefix, tokens):
    rng = numpy.random.default_rng(1)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=numpy.uint16)
    while tokens > 0:
        length = int(rng.integers(20, 400))
        ids = rng.integers(0, EOD, length)
        ids[-1] = EOD
        builder.add_document(torch.from_numpy(ids), [length])
        tokens -= length
    builder.finalize(f"{prefix}.idx")


def main():
    if sys.argv[1] == "write":
        return write(sys.argv[2], int(sys.argv[3]))
    prefix, length, seed, count, folder, mask = sys.argv[1:]
    torch.set_num_threads(1)  # its loops are small
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0,
                                         world_size=1)
    config = GPTDatasetConfig(
        random_seed=int(seed), sequence_length=int(length), blend=([prefix], None), split="1,0,0",
        path_to_cache=f"{folder}/cache", tokenizer=Ids(), reset_position_ids=True,
        reset_attention_mask=True, eod_mask_loss=True, create_attention_mask=mask != "none")
    data = BlendedMegatronDatasetBuilder(GPTDataset, [int(count), 0, 0], lambda: True,
                                         config).build()[0]
    for _ in range(2):
        begin, used = time.perf_counter(), time.process_time()
        for i in range(int(count)):
            data[i]
        taken = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - used}
    print(json.dumps(taken))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
