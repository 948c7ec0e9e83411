"""The tokenizer sentencepiece against the package `sentencepiece`: ids and decoded texts.

Models are trained here in every form, and those of Mistral are read, which the package
`mistral-common` has. Texts are those of tokens.py, code points, and strings drawn from pieces that
tokenizers trip over: 3,000 of each, or as many as TESSERA_TEST_ROUNDS says (100000: every code
point). What transformers makes of a folder that `tessera convert` writes is compared too.
"""

import importlib.util
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import sentencepiece
from safetensors.numpy import save_file

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer  # noqa: E402

from tokenizer_json import EVERY, ROUNDS, differs  # noqa: E402
from tokens import ROOT, Failed, tessera, texts  # noqa: E402

PIECES = ["a", "b", "the", " ", "  ", "\n", "\t", "'s", "1", "23", ".", ", ", "_", "▁", "▁▁", "é"]
PIECES += ["e\u0301", "ß", "漢", "字", "か", "\u0301", "²", "\u00a0", "\u3000", "\u200d", "<s>"]
PIECES += ["</s>", "<unk>", "<0x41>", "<user>", "[INST]", "\U0001f600", "İ", "가", "ﬁ", "Å", "A"]
PIECES += ["\ufffd", "Ⅳ", "\u0000", "\u2581a", "<pad>", "<", "\r\n", "\ufeff", "ｱ", "①"]


def trained(**options):
    corpus = [path.read_text() for path in sorted(ROOT.glob("*/README.md"))]
    lines = [line for text in corpus for line in text.splitlines() if line.strip()]
    model = io.BytesIO()
    options = {"vocab_size": 800, "minloglevel": 2} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines + ["naïve café Ünïcödé 漢字かな 0123456789"]),
        model_writer=model,
        **options,
    )
    return model.getvalue()


def mistral():
    """The models of the package, which is not imported: it wants others."""
    spec = importlib.util.find_spec("mistral_common")
    for file in sorted(Path(spec.submodule_search_locations[0]).glob("data/*.model*")):
        yield file.name, file.read_bytes()


def models():
    yield "unigram", trained(model_type="unigram")
    yield "BPE", trained(model_type="bpe")
    yield "characters", trained(model_type="char", vocab_size=200, hard_vocab_limit=False)
    yield "words", trained(model_type="word", vocab_size=800, hard_vocab_limit=False)
    more = {"user_defined_symbols": ["<user>", "▁▁", "the"], "control_symbols": ["[INST]"]}
    for kind in ["unigram", "bpe"]:
        yield f"{kind}, bytes", trained(model_type=kind, byte_fallback=True, **more)
        yield f"{kind}, identity", trained(
            model_type=kind, normalization_rule_name="identity", remove_extra_whitespaces=False
        )
        yield f"{kind}, bare", trained(
            model_type=kind, add_dummy_prefix=False, split_digits=True, pad_id=3, bos_id=-1
        )
        yield f"{kind}, suffix", trained(
            model_type=kind, treat_whitespace_as_suffix=True, normalization_rule_name="nmt_nfkc_cf"
        )
    yield from mistral()


def code_points():
    known = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    return known if ROUNDS >= EVERY else random.Random(7).sample(known, ROUNDS)


def strings():
    random.seed(5)
    known = code_points()
    for _ in range(ROUNDS):
        if random.random() < 0.7:
            yield "".join(random.choices(PIECES, k=random.randrange(1, 12)))
        else:
            yield "".join(map(chr, random.choices(known, k=random.randrange(1, 12))))


def answers(program, path, many, *how):
    words = [program.parents[1] / "tests/token_server", "sentencepiece", f'path = "{path}"', *how]
    lines = "".join(text.encode().hex() + "\n" for text in many)
    result = subprocess.run(words, input=lines, capture_output=True, text=True)
    if result.returncode != 0 or result.stderr:
        raise Failed(f"token_server ended with {result.returncode}: {result.stderr}")
    got = result.stdout.split("\n")
    return [
        (list(map(int, got[2 * i].split())), bytes.fromhex(got[2 * i + 1]).decode())
        for i in range(len(many))
    ]


def parsed(model, controls, text):
    """Control symbols are tokens; what lies between them is a text of its own."""
    ids, rest = [], text
    while rest:
        found = [(rest.find(one), -len(one), one) for one in controls if one in rest]
        begin, _, symbol = min(found, default=(len(rest), 0, ""))
        ids += model.encode(rest[:begin]) if begin else []
        ids += [model.piece_to_id(symbol)] if symbol else []
        rest = rest[begin + len(symbol) :]
    return ids


def compare(name, data, program, path, many):
    path.write_bytes(data)
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    wrong, count = [], 0
    for text, (ids, back) in zip(many, answers(program, path, many, "--text")):
        expected = model.encode(text)
        count += len(expected)
        if ids != expected:
            wrong.append(differs(text, ids, expected))
        elif back != model.decode(expected):
            wrong.append(f"{ids[:40]} is decoded to {back!r}, not {model.decode(expected)!r}")
    pieces = range(model.get_piece_size())
    controls = [model.id_to_piece(id) for id in pieces if model.is_control(id)]
    few = many[-1000:]
    for text, (ids, _) in zip(few, answers(program, path, few)):
        if ids != parsed(model, controls, text):
            wrong.append("parsed, " + differs(text, ids, parsed(model, controls, text)))
    if wrong:
        raise Failed("\n  ".join([f"{name}: {len(wrong)} of {len(many)} texts differ", *wrong[:8]]))
    print(f"{name}: {count} tokens of {len(many)} texts", flush=True)


def write_llama(folder, data):
    """A folder with a random Llama and tokenizer.model, without tokenizer.json."""
    width, ffn, rows = 8, 64, sentencepiece.SentencePieceProcessor(model_proto=data).vocab_size()
    settings = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": width}
    settings |= {"num_attention_heads": 2, "intermediate_size": ffn, "vocab_size": rows}
    settings |= {"max_position_embeddings": 16, "architectures": ["LlamaForCausalLM"]}
    layer = {f"self_attn.{name}_proj": (width, width) for name in "qkvo"}
    layer |= {"mlp.gate_proj": (ffn, width), "mlp.up_proj": (ffn, width)}
    layer |= {"mlp.down_proj": (width, ffn), "input_layernorm": (width,)}
    layer |= {"post_attention_layernorm": (width,)}
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {"model.embed_tokens.weight": (rows, width), "model.norm.weight": (width,)}
    shapes |= {"lm_head.weight": (rows, width)}
    generator = numpy.random.default_rng(1)
    draw = lambda shape: generator.normal(0, 0.1, shape).astype(numpy.float32)  # noqa: E731
    folder.mkdir()
    save_file({name: draw(shape) for name, shape in shapes.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "tokenizer.model").write_bytes(data)


def converted(program, folder):
    """`tessera convert` takes the model along, there and back, and says what ends a text."""
    options = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"}
    data = trained(**options, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    write_llama(folder / "theirs", data)
    tessera(program, "convert", "--from", folder / "theirs", "--to", folder / "ours")
    for text in ["the quick  fox é", "</s>a <s>"]:
        words = ["--checkpoint", folder / "ours", "--prompt", text, "--ids"]
        ids = json.loads(tessera(program, "generate", *words))
        if ids != parsed(model, ["<s>", "</s>"], text):
            raise Failed(differs(text, ids, parsed(model, ["<s>", "</s>"], text)))
    tessera(program, "convert", "--from", folder / "ours", "--to", folder / "back")
    if (folder / "back" / "tokenizer.model").read_bytes() != data:
        raise Failed("the tokenizer.model that is written back is another one")
    written = json.loads((folder / "back" / "config.json").read_text())
    if (written["bos_token_id"], written["eos_token_id"]) != (1, 2):
        raise Failed(f"config.json has {written['bos_token_id']} and {written['eos_token_id']}")
    theirs = AutoTokenizer.from_pretrained(folder / "back")
    for text in ["the quick fox é", "configs and tests", "two  spaces 漢字"]:
        ids, expected = theirs(text).input_ids, model.encode(text)
        if ids != expected:
            raise Failed("AutoTokenizer, " + differs(text, ids, expected))
    (folder / "ours" / "tokenizer" / "tokenizer.model").rename(folder / "other.model")
    try:
        tessera(program, "convert", "--from", folder / "ours", "--to", folder / "without")
    except Failed as failure:
        if "tokenizer has no tokenizer.model, and" not in str(failure):
            raise
    else:
        raise Failed("a model was written without its tokenizer")
    print("converted there and back", flush=True)


def main():
    program = Path(sys.argv[1])
    fixed = list(texts()) + [""]
    fixed += [f"a{chr(code)}1 {chr(code)}" for code in code_points()]
    drawn = list(strings())
    # Long texts, which some models let Tessera cut.
    fixed += [" ".join(drawn[:2000]), "\n".join(f"{one} the {one}" for one in drawn[:1000])]
    many = fixed + drawn
    failures, seen = [], 0
    with tempfile.TemporaryDirectory() as folder:
        converted(program, Path(folder))
        for name, data in models():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            try:
                compare(name, data, program, Path(folder) / "tokenizer.model", many)
            except Failed as failure:
                failures.append(failure)
                print(failure, flush=True)
            seen += 1
    if failures:
        raise Failed(f"{len(failures)} of {seen} models differ")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
