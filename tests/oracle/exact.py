"""A model of transformers and what `tessera convert` makes of it, both in FP64: the loss, the
logits at every position and every gradient are the same to rounding.

Tessera has no file of FP64 to take, so the values come from it: two steps of its own with a large
rate. What they are in transformers follows from a second conversion, of a model whose every element
is its number.
"""

import copy
import json

import torch

from doubles import doubled, in_doubles
from hugging_face import Failed, check, tessera
from tessera_run import read_checkpoint

LIMIT = 1e-12  # of a loss, relative; of gradients, in units of the tensor's largest
PRINTED = 1e-7  # of logits: `tessera generate` prints FP32
SMALL = 1e-6  # of the largest gradient: a tensor's unit is no less
RATE = 0.05  # the first step of AdamW moves each element by it
SAMPLES = 4
DOUBLES = ["--set", "device.type=reference", "--set", "precision.compute=fp64",
           "--set", "precision.main=fp64"]
MOMENT = "/first_moment"


def text_of(length):
    return "".join(chr(97 + (5 * i * i + i // 3) % 25) for i in range(SAMPLES * length + 1))


def tensors_of(model):
    """Parameters and buffers that files have, each once."""
    return list({t.data_ptr(): t for t in model.state_dict().values()}.values())


def places(program, folder, model):
    """By name in a checkpoint: where its elements are among those of tensors_of(model)."""
    numbers, count = copy.deepcopy(model), 0
    for tensor in tensors_of(numbers):
        tensor.copy_(torch.arange(count, count + tensor.numel()).view_as(tensor))
        count += tensor.numel()
    if count > 2**24:
        raise Failed(f"FP32 does not tell {count} numbers apart")
    numbers.save_pretrained(folder / "numbers")
    words = ["convert", "--from", folder / "numbers", "--to", folder / "numbers_ours"]
    tessera(program, *words)
    _, tensors = read_checkpoint(folder / "numbers_ours/checkpoints/step-0")
    return count, {name: torch.tensor(tensor).long() for name, tensor in tensors.items()}


def two_steps(program, folder, length):
    """The second loss, and what checkpoints hold after each step."""
    (folder / "exact.txt").write_text(text_of(length))
    (folder / "exact.toml").write_text(
        f"""schema = 1
include = ["{folder / "ours/model.toml"}"]
run = {{name = "exact", seed = 1, steps = 2, log_every_steps = 1, out = "{folder / "exact"}"}}
batch = {{global = {SAMPLES}, micro = {SAMPLES // 2}}}
lr = {{type = "constant", peak = {RATE}}}
data = {{type = "text", path = "{folder / "exact.txt"}", validation = 0}}
optimizer = {{clip = 0, rule = {{type = "adamw", weight_decay = 0, beta1 = 0}}}}
checkpoint = {{every_steps = 1, keep = 0}}
observers.console.type = "none"
"""
    )
    tessera(program, "train", folder / "exact.toml", *DOUBLES)
    found = [read_checkpoint(folder / f"exact/checkpoints/step-{step}")[1] for step in (1, 2)]
    last = (folder / "exact/metrics.jsonl").read_text().splitlines()[-1]
    return json.loads(last)["loss"], *found


def joined(stored, suffix, places, count):
    """One flat tensor in the order of tensors_of(model); 0 where nothing is stored."""
    flat = torch.zeros(count, dtype=torch.float64)
    for name, where in places.items():
        if name + suffix in stored:
            flat[where] = torch.tensor(stored[name + suffix])
    return flat


def with_values(model, flat):
    wide = doubled(model)
    for tensor, values in zip(tensors_of(wide), apart(model, flat), strict=True):
        tensor.copy_(values.view_as(tensor))
    return wide


def apart(model, flat):
    return flat.split([tensor.numel() for tensor in tensors_of(model)])


def compare_exactly(program, folder, model, what):
    """`folder` has the model as `ours`."""
    length = model.config.max_position_embeddings
    count, where = places(program, folder, model)
    our_loss, values, moments = two_steps(program, folder, length)
    tokens = torch.tensor(list(text_of(length).encode()))
    with in_doubles():
        wide = with_values(model, joined(values, "", where, count))
        logits = wide(tokens[:-1].view(SAMPLES, length)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:])
        loss.backward()
    check(f"loss in FP64 ({what})", abs(our_loss - loss.item()) / loss.item(), LIMIT)
    ours = apart(model, joined(moments, MOMENT, where, count))
    check(f"gradients in FP64 ({what})", largest_error(ours, wide), LIMIT)
    errors = errors_of_logits(program, folder, logits[0])
    check(f"logits of every position ({what})", errors, PRINTED)


def largest_error(ours, wide):
    """Of gradients, each in units of its tensor's largest. (A key's bias has a gradient of zero,
    and both sides have their rounding errors instead.)"""
    gradients = {parameter.data_ptr(): parameter.grad for parameter in wide.parameters()}
    least = SMALL * max(float(one.abs().max()) for one in gradients.values() if one is not None)
    worst = 0.0
    for tensor, found in zip(tensors_of(wide), ours, strict=True):
        wanted = gradients.get(tensor.data_ptr())
        wanted = torch.zeros_like(found) if wanted is None else wanted.flatten()
        unit = max(float(wanted.abs().max()), least)
        worst = max(worst, float((found - wanted).abs().max()) / unit)
    return worst


def errors_of_logits(program, folder, wanted):
    """After each of the first sample's tokens, in units of the largest."""
    text = text_of(len(wanted))
    prefixes = "".join(text[:end] + "\n" for end in range(1, len(wanted) + 1))
    (folder / "prefixes.txt").write_text(prefixes)
    lines = tessera(program, "generate", "--checkpoint", folder / "exact/checkpoints/step-1",
                    "--prompts", folder / "prefixes.txt", "--logits")
    found = torch.tensor([json.loads(line) for line in lines.splitlines()], dtype=torch.float64)
    return float((found - wanted).abs().max() / wanted.abs().max())
