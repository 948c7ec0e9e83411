"""Converts a GPT-2 of Hugging Face transformers to Tessera and back: logits, training, bits.

The model has random weights, biases and norms, so that no two tensors could be mixed up unseen.
hugging_face_llama.py does the same of Llamas and families like it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench/peers"))
import quiet_transformers  # noqa: F401  first

import torch
from safetensors.torch import save_file, save_model
from transformers import GPT2Config, GPT2LMHeadModel

LOGITS = 2e-5  # largest difference, where logits are of size 5: both sides are in FP32
STEPS = 3
TEXT = "".join(chr(33 + (7 * i * i + i // 5) % 90) for i in range(4000))


class Failed(Exception):
    pass


def one_thread():
    """For models as small as these: several threads would wait for each other, busily."""
    torch.set_num_threads(1)


def tessera(program, *words):
    result = subprocess.run(
        [str(program), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if result.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))} ended with {result.returncode}: {result.stderr}")
    return result.stdout


def check(what, difference, limit):
    print(f"{what:<58} {difference:9.1e} of {limit:.0e}")
    if not difference <= limit:
        raise Failed(f"{what}: {difference} is more than {limit}")


def random_model(seed, **settings):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=300,
        n_positions=24,
        n_embd=48,
        n_layer=3,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        **settings,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "ln_" in name and "weight" in name else 0.0, 0.15)
    return model


def same_bits(model, other):
    left, right = model.state_dict(), other.state_dict()
    if left.keys() != right.keys():
        raise Failed(f"other names: {left.keys() ^ right.keys()}")
    for name, tensor in left.items():
        if not torch.equal(tensor, right[name]):
            raise Failed(f"{name} has other bits")


def compare_logits(program, checkpoint, model, what):
    worst = 0.0
    for prompt in [TEXT[:1], TEXT[:9], TEXT[50:74]]:
        tokens = torch.tensor([list(prompt.encode())])
        with torch.no_grad():
            theirs = model(tokens).logits[0, -1]
        words = ["generate", "--checkpoint", checkpoint, "--prompt", prompt, "--logits"]
        ours = torch.tensor(json.loads(tessera(program, *words)))
        if ours.shape != theirs.shape:
            raise Failed(f"{len(ours)} logits instead of {len(theirs)}")
        worst = max(worst, float((ours - theirs).abs().max()))
    check(what, worst, LOGITS)


def train_on(program, folder, out):
    """Some steps from the imported parameters; the losses."""
    (folder / "text.txt").write_text(TEXT)
    (folder / "train.toml").write_text(
        f"""schema = 1
include = ["{folder / "ours/model.toml"}"]
run = {{name = "on", seed = 1, steps = {STEPS}, log_every_steps = 1, out = "{out}"}}
batch = {{global = 4, micro = 2}}
lr = {{type = "constant", peak = 1e-3}}
data = {{type = "text", path = "{folder / "text.txt"}"}}
checkpoint = {{every_steps = 1, keep = 0, init_from = "{folder / "ours"}"}}
observers.console.type = "none"
"""
    )
    tessera(program, "train", folder / "train.toml")
    return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]


def mean_loss(model):
    """Over all samples of the text, as Tessera cuts them."""
    tokens = torch.tensor(list(TEXT.encode()))
    length = model.config.max_position_embeddings
    count = (len(tokens) - 1) // length
    inputs = tokens[: count * length].view(count, length)
    targets = tokens[1 : count * length + 1].view(count, length)
    with torch.no_grad():
        logits = model(inputs).logits
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))


def in_several_files(program, folder, model, by):
    """`folder` has the model as `ours`."""
    model.save_pretrained(folder / "sharded", max_shard_size="100KB")
    tessera(program, "convert", "--from", folder / "sharded", "--to", folder / "ours2")
    tessera(program, "checkpoint", "diff", folder / "ours", folder / "ours2")
    tessera(program, "convert", "--from", folder / "ours", "--to", folder / "back_sharded",
            "--max-shard-size", "100KB", *by)
    for name in ["sharded", "back_sharded"]:
        if len(list((folder / name).glob("model-*.safetensors"))) < 2:
            raise Failed(f"{name} is not in several files")
    same_bits(model, type(model).from_pretrained(folder / "back_sharded"))
    print("there and back in several files: the same bits")


def one_model(program, folder, model, what, converter=None, several=True):
    """`converter`: takes the model back where several could. `several`: in several files too."""
    read = type(model).from_pretrained
    by = ["--converter", converter] if converter else []
    model.save_pretrained(folder / "theirs")
    tessera(program, "convert", "--from", folder / "theirs", "--to", folder / "ours")
    compare_logits(program, folder / "ours", model, f"logits ({what})")
    tessera(program, "convert", "--from", folder / "ours", "--to", folder / "back", *by)
    same_bits(model, read(folder / "back"))
    print("there and back: the same bits")
    if several:
        in_several_files(program, folder, model, by)

    run = folder / "run"
    losses = train_on(program, folder, run)
    if not losses[-1] < losses[0]:
        raise Failed(f"training on does not lower the loss: {losses}")
    tessera(program, "convert", "--from", run, "--to", folder / "trained", *by)
    trained = read(folder / "trained").eval()
    compare_logits(program, run, trained, f"logits after {STEPS} steps")
    before, after = mean_loss(model), mean_loss(trained)
    print(f"mean loss of the whole text {before:.4f}, after the steps {after:.4f}")
    if not after < before:
        raise Failed("what was trained here is no better there")


def words(settings):
    return ", ".join(f"{key} {value}" for key, value in settings.items()) or "as it comes"


def forms_of_gelu(program, folder):
    for name in ["gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu", "gelu_python"]:
        model = random_model(5, activation_function=name)
        model.save_pretrained(folder / name)
        tessera(program, "convert", "--from", folder / name, "--to", folder / f"{name}_ours")
        compare_logits(program, folder / f"{name}_ours", model, f"logits ({name})")
        back = folder / f"{name}_back"
        tessera(program, "convert", "--from", folder / f"{name}_ours", "--to", back)
        same_function(model, GPT2LMHeadModel.from_pretrained(back).eval(), name)


def same_function(model, other, what):
    tokens = torch.tensor([list(TEXT[:20].encode())])
    with torch.no_grad():
        difference = (model(tokens).logits - other(tokens).logits).abs().max()
    check(f"read back ({what})", float(difference), LOGITS)


def tied_tables(program, folder):
    """Under either name, and a head that was trained on its own."""
    model = random_model(6)
    save_model(model, str(folder / "alias.safetensors"))
    folder_of(model, folder / "alias")
    (folder / "alias.safetensors").rename(folder / "alias/model.safetensors")
    tessera(program, "convert", "--from", folder / "alias", "--to", folder / "alias_ours")
    compare_logits(program, folder / "alias_ours", model, "logits (a table under one of two names)")

    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(7)
    tensors["lm_head.weight"] = torch.randn_like(tensors["lm_head.weight"])
    folder_of(model, folder / "apart")
    save_file(tensors, str(folder / "apart/model.safetensors"), {"format": "pt"})
    tessera(program, "convert", "--from", folder / "apart", "--to", folder / "apart_ours")
    theirs = GPT2LMHeadModel.from_pretrained(folder / "apart").eval()
    compare_logits(program, folder / "apart_ours", theirs, "logits (a head of its own)")


def folder_of(model, folder):
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()


def refusals(program, folder):
    model = random_model(9)
    model.config.activation_function = "relu"
    model.save_pretrained(folder / "relu")
    for source, reason in [("relu", "activation_function"), ("none", "there is no")]:
        try:
            tessera(program, "convert", "--from", folder / source, "--to", folder / "no")
        except Failed as failure:
            if reason not in str(failure):
                raise
        else:
            raise Failed(f"{source} was converted")
    if (folder / "no").exists() or (folder / "no.tmp").exists():
        raise Failed("a refused conversion leaves something")


def main():
    one_thread()
    program = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        for seed, settings in enumerate(
            [{}, {"tie_word_embeddings": False, "n_inner": 80, "layer_norm_epsilon": 1e-3}]
        ):
            folder = Path(name, str(seed))
            folder.mkdir()
            one_model(program, folder, random_model(seed, **settings), words(settings))
        forms_of_gelu(program, Path(name))
        tied_tables(program, Path(name))
        refusals(program, Path(name))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
