"""The sampling chain against the logits processors of transformers, in FP64.

Logits are random, some with many ties; each case draws its own parameters. The tokens that are left
must be the same, and their probabilities equal to 1e-12. Which of several equal tokens top-p leaves
depends on PyTorch's order there; then only the probabilities, in order, are compared.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
from transformers.generation import logits_process as chain  # noqa: E402

CASES = int(os.environ.get("TESSERA_TEST_ROUNDS", "3000"))
MOST = 1 << 24  # top_k that keeps all


def drawn_case():
    size = random.choice([2, 5, 50, 300])
    ties = random.random() < 0.4
    logits = [random.gauss(0, 4) for _ in range(size)]
    if ties:
        logits = [float(round(x)) for x in logits]
    # As the model gives them: in single precision.
    logits = torch.tensor(logits, dtype=torch.float32)
    maybe = lambda value, otherwise: value if random.random() < 0.5 else otherwise  # noqa: E731
    return {
        "temperature": maybe(random.uniform(0.1, 3), 1.0),
        "top_k": maybe(random.randrange(1, size + 1), MOST),
        "top_p": maybe(random.uniform(1e-3, 1), 1.0),
        "min_p": maybe(random.uniform(0, 0.9), 0.0),
        "penalty": maybe(random.choice([0.5, 1.1, 1.5, 4.0]), 1.0),
        "text": [random.randrange(size) for _ in range(random.randrange(1, 9))],
        "logits": logits,
    }


def theirs(case):
    scores = case["logits"].double()[None]
    steps = []
    if case["penalty"] != 1:
        steps.append(chain.RepetitionPenaltyLogitsProcessor(case["penalty"]))
    if case["temperature"] != 1:
        steps.append(chain.TemperatureLogitsWarper(case["temperature"]))
    if case["top_k"] != MOST:
        steps.append(chain.TopKLogitsWarper(case["top_k"]))
    if case["top_p"] != 1:
        steps.append(chain.TopPLogitsWarper(case["top_p"]))
    if case["min_p"] != 0:
        steps.append(chain.MinPLogitsWarper(case["min_p"]))
    ids = torch.tensor([case["text"]])
    for step in steps:
        scores = step(ids, scores)
    return torch.softmax(scores, dim=-1)[0]


def line_of(case):
    names = ["temperature", "top_k", "top_p", "min_p", "penalty"]
    values = [*(case[name] for name in names), len(case["text"]), *case["text"]]
    return " ".join([*map(repr, values), *map(repr, case["logits"].tolist())])


def main():
    program = Path(sys.argv[1])
    random.seed(3)
    cases = [drawn_case() for _ in range(CASES)]
    result = subprocess.run(
        [program.parents[1] / "tests/sampling_server"],
        input="".join(line_of(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        sys.exit(f"sampling_server ended with {result.returncode}: {result.stderr}")
    farthest, left = 0.0, 0
    for case, line in zip(cases, result.stdout.splitlines(), strict=True):
        ours = torch.tensor([float(word) for word in line.split()], dtype=torch.float64)
        ours, expected = ours / ours.sum(), theirs(case)
        if case["logits"].unique().numel() < ours.numel() or case["penalty"] != 1:
            ours, expected = ours.sort().values, expected.sort().values
        if not torch.equal(ours > 0, expected > 0):
            sys.exit(f"other tokens are left: {case}: {ours}, not {expected}")
        farthest = max(farthest, float((ours - expected).abs().max()))
        left += int((ours > 0).sum())
    print(f"{CASES} cases, {left} tokens left, probabilities within {farthest:.1e}")
    if not farthest < 1e-12:
        sys.exit("probabilities differ")


if __name__ == "__main__":
    main()
