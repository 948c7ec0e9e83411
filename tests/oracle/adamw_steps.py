"""Ten steps of AdamW on a model of transformers, by Tessera and by PyTorch in FP32 and in FP64.

Every step is over all samples of a text, so that their order does not matter. What is asked of
Tessera's parameters in FP32: they are no further from PyTorch's in FP64 than a few times what
PyTorch's own in FP32 are.
"""

import copy
import json

import torch

from doubles import doubled, in_doubles
from hugging_face import Failed, tessera

STEPS, SAMPLES, RATE, DECAY = 10, 8, 1e-3, 0.1
MOST = 4.0  # times PyTorch's error in FP32


def text_of(length):
    """So many samples, and the target of the last token. Letters come again, as in a text."""
    return "".join(chr(97 + (7 * i * i + i // 5) % 23) for i in range(SAMPLES * length + 1))


def ours(program, folder, read):
    """The losses, and the parameters after the steps."""
    length = json.loads((folder / "theirs/config.json").read_text())["max_position_embeddings"]
    (folder / "all.txt").write_text(text_of(length))
    (folder / "all.toml").write_text(
        f"""schema = 1
include = ["{folder / "ours/model.toml"}"]
run = {{name = "all", seed = 1, steps = {STEPS}, log_every_steps = 1, out = "{folder / "all"}"}}
batch = {{global = {SAMPLES}, micro = {SAMPLES // 2}}}
lr = {{type = "constant", peak = {RATE}}}
data = {{type = "text", path = "{folder / "all.txt"}", validation = 0}}
optimizer.rule = {{type = "adamw", weight_decay = {DECAY}}}
checkpoint.init_from = "{folder / "ours"}"
observers.console.type = "none"
"""
    )
    tessera(program, "train", folder / "all.toml")
    lines = (folder / "all/metrics.jsonl").read_text().splitlines()
    tessera(program, "convert", "--from", folder / "all", "--to", folder / "all_back")
    return [json.loads(line)["loss"] for line in lines], parameters_of(read(folder / "all_back"))


def parameters_of(model):
    return {name: p.detach().double() for name, p in model.named_parameters()}


def theirs(model, dtype):
    model = (doubled(model) if dtype == torch.float64 else copy.deepcopy(model).float()).train()
    length = model.config.max_position_embeddings
    tokens = torch.tensor(list(text_of(length).encode()))
    inputs, targets = tokens[:-1].view(SAMPLES, length), tokens[1:]
    decays = {True: [], False: []}
    for parameter in model.parameters():
        decays[parameter.dim() > 1].append(parameter)
    groups = [{"params": decays[True], "weight_decay": DECAY}, {"params": decays[False]}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(inputs).logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, parameters_of(model)


def apart(some, others):
    """Mean of the differences, over all parameters. (Not of their squares: where a gradient is
    almost zero, as a key's bias has it, AdamW's step is a rate times the sign of rounding errors,
    and a few such elements outweigh all others.)"""
    if some.keys() != others.keys():
        raise Failed(f"other parameters: {some.keys() ^ others.keys()}")
    total = sum(float((some[name] - others[name]).abs().sum()) for name in some)
    return total / sum(p.numel() for p in some.values())


def compare_steps(program, folder, model, what):
    """`folder` has the model as `theirs` and, converted, as `ours`."""
    with in_doubles():
        exact_losses, exact = theirs(model, torch.float64)
    losses, single = theirs(model, torch.float32)
    our_losses, our = ours(program, folder, type(model).from_pretrained)
    moved = apart(exact, parameters_of(model))
    error, their_error = apart(our, exact), apart(single, exact)
    loss_error = max(abs(a - b) for a, b in zip(our_losses, exact_losses, strict=True))
    their_loss_error = max(abs(a - b) for a, b in zip(losses, exact_losses, strict=True))
    print(f"{STEPS} steps ({what}): moved by {moved:.1e}; from FP64 {error:.1e}, PyTorch's FP32 "
          f"{their_error:.1e}; losses {loss_error:.1e}, {their_loss_error:.1e}")
    if not error <= MOST * their_error:
        raise Failed(f"after {STEPS} steps: {error}, more than {MOST} times {their_error}")
    if not loss_error <= MOST * max(their_loss_error, 1e-6):
        raise Failed(f"losses of {STEPS} steps: {our_losses}, in FP64 {exact_losses}")
