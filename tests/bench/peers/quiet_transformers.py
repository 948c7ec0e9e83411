"""Imported before transformers: says nothing of what does not matter here, and goes to no hub."""

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch  # noqa: E402
from transformers import utils  # noqa: E402

utils.logging.disable_progress_bar()
# This PyTorch has stubs in the place of CUDA's libraries (tests/bench/venv.sh).
torch.cuda.is_current_stream_capturing = lambda: False
