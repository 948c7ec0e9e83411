"""Near duplicates, against datasketch."""

import json
import random
import subprocess

from processes import ROOT

from corpus.measuring import documents, rounds, tessera, timed, write_lines

# The peer's side of near duplicates: candidates by bands, verified by the sets.
DATASKETCH = """
import json, sys, time
from datasketch import MinHash, MinHashLSH
begin = time.perf_counter()
lsh = MinHashLSH(num_perm=128, params=(32, 4))
sets, removed = [], 0
for number, line in enumerate(open(sys.argv[1])):
    text = json.loads(line)["text"]
    shingles = {text[i:i + 5] for i in range(len(text) - 4)} or {text}
    sketch = MinHash(num_perm=128)
    sketch.update_batch([shingle.encode() for shingle in shingles])
    for other in lsh.query(sketch):
        both = len(shingles & sets[other])
        if both / (len(shingles) + len(sets[other]) - both) > 0.7:
            removed += 1
            break
    lsh.insert(number, sketch)
    sets.append(shingles)
print(json.dumps({"removed": removed, "seconds": time.perf_counter() - begin}))
"""


def datasketch_python():
    venv = ROOT / "build/datasketch-venv"
    if not (venv / "ready").exists():
        subprocess.run(["python3", "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", "datasketch"],
                       check=True)
        (venv / "ready").touch()
    return venv / "bin/python"


def bench(options, folder):
    texts = list(dict.fromkeys(documents(options.minhash_megabytes)))
    chance = random.Random(1)
    for _ in range(len(texts) // 10):  # copies with a changed part
        text = chance.choice(texts)
        texts.append(text[:200] + "changed" + text[240:])
    lines = folder / "minhash.jsonl"
    write_lines(lines, texts)
    python = datasketch_python()

    def same(taken):
        ours = sum(1 for _ in open(folder / "ours.removed.jsonl"))
        theirs = json.loads(taken["theirs"]["output"])["removed"]
        print(f"  removed: {ours} and {theirs} of {len(texts)}")
        if abs(ours - theirs) > 0.01 * theirs:  # groups remove more than the first twin does
            raise SystemExit("the documents that go differ")

    def stage():  # what the stage adds to a build, as the peer writes no tokens
        without = tessera(folder, lines, 1, '{type = "byte"}', "[]")
        whole = tessera(folder, lines, 1, '{type = "byte"}', '[{type = "near_duplicates"}]')
        print(f"  the whole build: {whole['seconds']:.2f} s, without: {without['seconds']:.2f} s")
        whole["seconds"] -= without["seconds"]
        return whole

    rounds(options, f"{len(texts)} documents compared", stage,
           lambda: timed([python, "-c", DATASKETCH, lines]), same)
