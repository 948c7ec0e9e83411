"""The tokenizer sentencepiece against the package `sentencepiece`: ids and decoded texts.

Models are trained here in every form, and those of Mistral are read, which the package
`mistral-common` has. Texts are those of tokens.py, code points, and strings drawn from pieces that
tokenizers trip over: 3,000 of each, or as many as TESSERA_TEST_ROUNDS says (100000: every code
point). What transformers makes of a folder that `tessera convert` writes is compared too.

Models that `tessera tokenizer train` makes are compared with those that the package makes in the
version of Debian's library, since versions count repeated characters differently: merges byte by
byte, unigrams token by token.
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


# Trains with the package of another version, in a process of its own: options and lines are JSON.
TRAINER = """
import io, json, sys
import sentencepiece
options, lines = json.load(sys.stdin)
model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **options
)
sys.stdout.buffer.write(model.getvalue())
"""
OURS = {"character_coverage": 0.9995, "split_digits": True, "byte_fallback": True}
OURS |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
OURS |= {"add_dummy_prefix": False, "allow_whitespace_only_pieces": True}
# Defaults, which a file has where they are given.
OURS |= {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "max_sentencepiece_length": 16}
OURS |= {"num_threads": 16}


def package_trains(lines, **options):
    package = Path(sys.executable).parents[1] / "sentencepiece-trainer"
    result = subprocess.run(
        [sys.executable, "-c", TRAINER],
        input=json.dumps([OURS | options, lines]).encode(),
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
    )
    if result.returncode != 0:
        raise Failed(f"the package does not train: {result.stderr.decode()}")
    return result.stdout


def scores(data):
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    return {model.id_to_piece(id): model.get_score(id) for id in range(model.get_piece_size())}


def same_model(kind, ours, theirs):
    """Merges are integers. Likelihoods are sums, which the package's own compiler rounds."""
    if kind == "bpe":
        return ours == theirs
    ours, theirs = scores(ours), scores(theirs)
    return ours.keys() == theirs.keys() and max(abs(ours[p] - theirs[p]) for p in ours) < 0.01


def trains(program, folder):
    """`tessera tokenizer train` writes the model that the package does."""
    documents = [path.read_text() for path in sorted(ROOT.glob("*/README.md"))]
    # No carriage return ends a line: the package takes it away, and so counts fewer characters.
    documents.append("naïve café 漢字かな 0123456789 ____\r____\n\n\tx")
    corpus = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (folder / "corpus.jsonl").write_text(corpus)
    lines = [line for text in documents for line in text.split("\n") if line]
    settings = [
        ("", {}),
        ("split_digits = false, longest_token = 6", {"split_digits": False}),
        ('normalization = "nmt_nfkc_cf", character_coverage = 1.0', {"character_coverage": 1.0}),
    ]
    settings[1][1]["max_sentencepiece_length"] = 6
    settings[2][1]["normalization_rule_name"] = "nmt_nfkc_cf"
    for kind in ["bpe", "unigram"]:
        for keys, options in settings:
            table = f'{{type = "{kind}", vocabulary = 900{", " if keys else ""}{keys}}}'
            text = f'schema = 1\ninput = ["corpus.jsonl"]\noutput = "m"\ntrainer = {table}\n'
            (folder / "train.toml").write_text(text)
            tessera(program, "tokenizer", "train", folder / "train.toml", "--force")
            expected = package_trains(lines, model_type=kind, vocab_size=900, **options)
            if not same_model(kind, (folder / "m").read_bytes(), expected):
                raise Failed(f"{kind} {keys}: another model than the package's")
            print(f"{kind}, trained: {len(expected)} bytes {keys}", flush=True)


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
        trains(program, Path(folder))
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
