"""The tokenizer huggingface against the package `tokenizers`: ids and decoded texts.

Vocabularies are trained here, in the forms that models have. Texts are those of tokens.py, code
points, and strings drawn from pieces that tokenizers trip over: 3,000 of each, or as many as
TESSERA_TEST_ROUNDS says (100000: every code point, in ten minutes). token_server answers for
Tessera; it is given the tokenizer.json that `tokenizers` saves. What Unicode has assigned since
PCRE2's tables were made is left out.
"""

import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as cuts
from tokenizers import processors, trainers

from tokens import ROOT, Failed, texts

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ROUNDS = int(os.environ.get("TESSERA_TEST_ROUNDS", "3000"))
EVERY = 100_000  # rounds with which every code point is compared


def answers(program, folder, many, *how, kind="huggingface"):
    """Ids and decoded bytes of each text, by token_server."""
    keys = f"path = {json.dumps(str(folder))}"
    words = [program.parents[1] / "tests/token_server", kind, keys, *how]
    lines = "".join(text.encode().hex() + "\n" for text in many)
    result = subprocess.run(words, input=lines, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"token_server ended with {result.returncode}: {result.stderr}")
    got = result.stdout.split("\n")
    return [
        (list(map(int, got[2 * i].split())), bytes.fromhex(got[2 * i + 1]))
        for i in range(len(many))
    ]


def trained(tokenizer, alphabet=(), special=(), size=1200):
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=list(alphabet)
    )
    corpus = [path.read_text() for path in sorted(ROOT.glob("*/README.md"))]
    tokenizer.train_from_iterator(corpus + ["naïve café Ünïcödé 漢字かな 0123456789"], trainer)
    return tokenizer


def byte_level(cut, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer, tokenizer.decoder = cut, decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return trained(tokenizer, cuts.ByteLevel.alphabet(), ["<|endoftext|>"])


def with_bytes(tokenizer, sequence, decoder, normalizer=None):
    """SentencePiece's style: "<unk>", then bytes, then what was trained."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained(tokenizer, special=names)
    saved = json.loads(tokenizer.to_str())
    saved["added_tokens"] = saved["added_tokens"][:3]
    saved["model"] |= {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    made = Tokenizer.from_str(json.dumps(saved))
    if sequence is None:
        made.pre_tokenizer = None
    if normalizer is not None:
        made.normalizer = normalizer
    made.decoder = decoder
    return made


def llama_2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = cuts.Metaspace(prepend_scheme="always")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    change = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    return with_bytes(tokenizer, None, decoder, normalizers.Sequence(change))


def mistral():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = cuts.Metaspace(prepend_scheme="first", split=True)
    decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    made = with_bytes(tokenizer, cuts, decoder)
    made.add_tokens([AddedToken("[X]", normalized=False, lstrip=True)])
    return made


def no_bytes(fuse):
    """Unknown characters, and no bytes for them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
    tokenizer.pre_tokenizer = cuts.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return trained(tokenizer, special=["<unk>"], size=300)


ROLES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(**how):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**how)
    tokenizer.pre_tokenizer = cuts.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    trainer = trainers.WordPieceTrainer(
        vocab_size=1200, special_tokens=ROLES, show_progress=False)
    corpus = [path.read_text() for path in sorted(ROOT.glob("*/README.md"))]
    tokenizer.train_from_iterator(corpus + ["naïve café Ünïcödé 漢字かな 0123456789"], trainer)
    return tokenizer


@functools.cache
def taken_otherwise():
    """Characters that `tokenizers` does not take as BERT does, which asks Python: kinds are those
    of Unicode 8 there, and one block of CJK begins at another place."""
    flags = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
             "lowercase": False}
    clean = normalizers.BertNormalizer(**flags | {"clean_text": True}).normalize_str
    strip = normalizers.BertNormalizer(**flags | {"strip_accents": True}).normalize_str
    words = cuts.BertPreTokenizer().pre_tokenize_str
    other = set(range(0x2B820, 0x2B920))
    for code in assigned():
        c, kind = chr(code), unicodedata.category(chr(code))
        apart = unicodedata.normalize("NFD", c)
        bare = "".join(x for x in apart if unicodedata.category(x) != "Mn")
        mark = kind[0] == "P" or (code < 128 and kind[0] == "S")
        gone = code == 0xFFFD or (kind[0] == "C" and c not in "\t\n\r")
        space = c.isspace() and not 0x1C <= code < 0x20
        if ((clean(f"a{c}a") == "aa") != gone or strip(f"a{c}a") != f"a{bare}a"
                or len(words(f"a{c}a")) != (3 if mark else 2 if space else 1)):
            other.add(code)
    return other


def flags():
    cut = [cuts.Split(Regex(LLAMA_3), "isolated"), cuts.ByteLevel(False, True, False)]
    tokenizer = byte_level(cuts.Sequence(cut), normalizers.Lowercase())
    tokens = [AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True)]
    # Lower case makes one word of both, so one of them has to be found before that.
    tokens += [AddedToken("word", single_word=True)]
    tokens += [AddedToken("WORD", single_word=True, normalized=False)]
    tokens += [AddedToken("<L>", lstrip=True, rstrip=True, normalized=True), AddedToken("<")]
    tokens += [AddedToken("é", normalized=False), AddedToken("<<>>", normalized=False)]
    tokenizer.add_tokens(tokens)
    tokenizer.add_special_tokens([AddedToken("<s>", rstrip=True), AddedToken("<sp>", special=True)])
    return tokenizer


def delimiters(behavior, invert):
    split = cuts.Split(Regex(r"\d|[.,]\s"), behavior, invert)
    return byte_level(cuts.Sequence([split, cuts.Split(" ", behavior), cuts.ByteLevel(False)]))


def forms():
    """Names and tokenizers, one after the other."""
    yield "GPT-2", byte_level(cuts.ByteLevel(add_prefix_space=False))
    yield "prefix", byte_level(cuts.ByteLevel(add_prefix_space=True))
    for name, pattern in [("Llama-3", LLAMA_3), ("GPT-4o", GPT_4O)]:
        cut = [cuts.Split(Regex(pattern), "isolated"), cuts.ByteLevel(False, True, False)]
        tokenizer = byte_level(cuts.Sequence(cut), ignore_merges=name == "Llama-3")
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel()])
        yield name, tokenizer
    cut = [cuts.Digits(individual_digits=True), cuts.ByteLevel(add_prefix_space=False)]
    yield "SmolLM2", byte_level(cuts.Sequence(cut))
    cut = [cuts.ByteLevel(add_prefix_space=False), cuts.Digits(individual_digits=False)]
    yield "bytes first", byte_level(cuts.Sequence(cut))
    yield "words", byte_level(
        cuts.Sequence([cuts.Split(Regex(r"\w+|\b|\W"), "isolated"), cuts.ByteLevel(False)])
    )
    for form in ["NFC", "NFD", "NFKC", "NFKD"]:
        yield form, byte_level(cuts.ByteLevel(False), getattr(normalizers, form)())
    yield "Llama-2", llama_2()
    yield "Mistral", mistral()
    yield "unknown", no_bytes(False)
    yield "fused", no_bytes(True)
    yield "flags", flags()
    yield "BERT", bert()
    yield "BERT, cased", bert(lowercase=False)
    yield "BERT, accents", bert(strip_accents=False)
    for behavior in ["removed", "merged_with_previous", "merged_with_next", "contiguous"]:
        yield behavior, delimiters(behavior, False)
        yield f"{behavior}, inverted", delimiters(behavior, True)


def assigned():
    """Code points that Unicode 14 has; the newest tables here are Python's, of 14 or later."""
    for code in range(0x110000):
        if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co"):
            yield code


PIECES = ["a", "b", "the", " ", " ", "  ", "\n", "\r\n", "\t", "'s", "'S", "'ſ", "'LL", "1", "23"]
PIECES += ["4567", ".", ", ", "!?", "_", "▁", "é", "e\u0301", "ß", "漢", "字", "か", "\u0301", "²"]
PIECES += ["Ⅳ", "\u00a0", "\u3000", "\u200d", "<", "<l>", "<r>", "<L>", "<s>", "</s>", "word"]
PIECES += ["WORD", "[X]", "<unk>", "<|endoftext|>", "<<>>", "<sp>", "\U0001f600", "İ", "Ⓐ"]
PIECES += ["<0x41>", "\u0000", "가", "\u1100\u1161", "ﬁ", "Å", "\u212b", "٣", "א", "<0x"]


def strings(count, known):
    random.seed(5)
    for _ in range(count):
        if random.random() < 0.7:
            yield "".join(random.choices(PIECES, k=random.randrange(1, 12)))
        else:
            yield "".join(map(chr, random.choices(known, k=random.randrange(1, 12))))


def differs(text, ids, expected):
    return f"{text[:80]!r} is {ids[:40]}, not {expected[:40]}"


def decoded_alike(back, expected):
    """Tessera keeps bytes that are no UTF-8, `tokenizers` writes U+FFFD for one or more."""
    try:
        return back.decode() == expected
    except UnicodeDecodeError:
        return "\ufffd" in expected


def known_there(name, tokenizer, many):
    """Texts whose normal form is Python's: the tables of `tokenizers` are of Unicode 10."""
    if name.startswith("BERT"):
        other = taken_otherwise()
        if not 0 < len(other) < 1000:
            raise Failed(f"{name}: {len(other)} characters are taken otherwise")
        return [text for text in many if other.isdisjoint(map(ord, text))]
    if name not in ("NFC", "NFD", "NFKC", "NFKD"):
        return many
    form = tokenizer.normalizer.normalize_str
    known = [text for text in many if form(text) == unicodedata.normalize(name, text)]
    if len(known) < 0.99 * len(many):
        raise Failed(f"{name}: {len(many) - len(known)} of {len(many)} texts are left out")
    return known


def compare(name, tokenizer, program, folder, many):
    many = known_there(name, tokenizer, many)
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    theirs = tokenizer.encode_batch(many, add_special_tokens=False)
    texts_back = tokenizer.decode_batch([one.ids for one in theirs], skip_special_tokens=False)
    wrong = []
    ours = answers(program, folder, many)
    for text, one, expected, (ids, back) in zip(many, theirs, texts_back, ours):
        if ids != one.ids:
            wrong.append(differs(text, ids, one.ids))
        elif not decoded_alike(back, expected):
            wrong.append(f"{ids[:40]} is decoded to {back[:80]}, not {expected[:80]!r}")
    # Special tokens as text: `tokenizers` is told to split them.
    tokenizer.encode_special_tokens = True
    split = tokenizer.encode_batch(many, add_special_tokens=False)
    tokenizer.encode_special_tokens = False
    for text, one, (ids, _) in zip(many, split, answers(program, folder, many, "--text")):
        if ids != one.ids:
            wrong.append("as text, " + differs(text, ids, one.ids))
    if name == "BERT":
        names = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        (folder / "vocab.txt").write_text("".join(token + "\n" for token, _ in names))
        if answers(program, folder, many, kind="wordpiece") != ours:
            wrong.append("wordpiece: vocab.txt gives others than tokenizer.json")
    if wrong:
        raise Failed("\n  ".join([f"{name}: {len(wrong)} of {len(many)} texts differ", *wrong[:8]]))
    return sum(len(one.ids) for one in theirs), len(many)


def main():
    program = Path(sys.argv[1])
    known = list(assigned())
    fixed = list(texts()) + [""]
    points = known if ROUNDS >= EVERY else random.Random(7).sample(known, ROUNDS)
    fixed += [f"a{chr(code)}1 {chr(code)}" for code in points] + [f"'{chr(c)}" for c in points]
    failures, forms_seen = [], 0
    drawn = list(strings(ROUNDS, known))
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in forms():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            try:
                count, compared = compare(name, tokenizer, program, Path(folder), fixed + drawn)
                print(f"{name}: {count} tokens of {compared} texts", flush=True)
            except Failed as failure:
                failures.append(str(failure))
                print(failure, flush=True)
            forms_seen += 1
    if failures:
        raise Failed(f"{len(failures)} of {forms_seen} forms differ")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
