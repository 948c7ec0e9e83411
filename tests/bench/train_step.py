#!/usr/bin/env python3
"""Times whole training steps of Tessera against PyTorch, alternating round by round.

Both train the same GPT (6 layers, 384 wide, 6 heads, 2048 tokens a step; or GPT-2 124M with 1024
tokens), or a Llama as large, on the same bytes with AdamW and clip 1.0, in FP32 or in bf16; or a
BERT as large, each side on samples of its own. In bf16 PyTorch runs under autocast. Where it runs
eager and compiled, the faster of the two counts. Every measurement is a fresh process that runs
warm-up steps and then timed ones; a round measures every row on both sides, and the next round
swaps which side goes first.
"""

import argparse
import json
import math
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

import bert_data
import processes
import tessera_steps
from processes import BUILD, PROGRAM, ROOT

PEERS = ROOT / "tests/bench/peers"
# What a peer is also measured as; the fastest of its kinds counts.
SWITCHES = {"torch": (), "compiled": ("--compile",), "sharded": ("--sharded",),
            "grouped": ("--products", "grouped_mm"), "megatron": ("--products", "megatron")}
NAMES_OF = {"torch": "eager", "compiled": "compiled", "sharded": "FSDP2", "grouped": "grouped_mm",
            "megatron": "Megatron-Core"}
PEERS_OF = tuple(SWITCHES)
SIDES = (*PEERS_OF, "tessera")


@dataclass
class Row:
    key: str
    title: str
    ranks: int
    threads: int
    peer: str
    settings: dict = field(default_factory=dict)  # of Tessera, over train_step.toml
    shape: dict = field(default_factory=dict)  # of the peer, where it is not the small model's
    vocabulary: int = 256
    bf16: bool = False

    def tokens(self):
        return self.shape.get("batch", 8) * self.shape.get("sequence", 256)

    def guess(self):
        """The loss of a model that knows nothing; BERT guesses an order, too."""
        return math.log(self.vocabulary) + (math.log(2) if self.is_bert() else 0)

    def is_bert(self):
        return self.peer.startswith("bert")

    def model(self):
        return (self.vocabulary, "experts" in self.shape, self.shape.get("load"),
                self.shape.get("kv_heads"), self.is_bert() and (self.peer, self.shape["sequence"]))

    def apart(self):
        """How far losses may be apart; where scores nearly tie, rounding changes the choice."""
        return 5e-3 if self.bf16 else 1e-3 if "experts" in self.shape else 1e-4

    def sides(self, wanted):
        """PyTorch is compiled in one process, a GPT under autocast only. It is sharded where there
        are replicas, and takes the experts' products at once where there are experts;
        Megatron-Core's layer is measured where all experts are on one rank and its router chooses
        them."""
        has = {"torch": True, "tessera": True,
               "compiled": self.peer == "llama.py" or self.is_bert()
                           or (self.bf16 and self.peer == "gpt.py"),
               "sharded": self.peer == "gpt_data_parallel.py", "grouped": "experts" in self.shape,
               "megatron": self.peer == "gpt_experts.py" and "load" not in self.shape}
        return [side for side in wanted if has[side]]


SEQUENCE = {"parallel.tensor": 2, "parallel.sequence_parallel": True}
PIPELINE = {"parallel.pipeline": 2, "schedule.type": "1f1b", "batch.micro": 1}
BF16 = {"precision.compute": "bf16"}
GPT2 = {"layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "batch": 1, "vocabulary": 50257}
GPT2_SETTINGS = {"model.layers": 12, "model.hidden": 768, "model.heads": 12, "model.vocab": 50257,
                 "batch.sequence_length": 1024, "batch.global": 1, "batch.micro": 1}
LLAMA = {"kv_heads": 2, "ffn": 1024}
LLAMA_SETTINGS = {"model.tied_embeddings": False, "model.embedding.learned_positions": False,
                  "model.block.norm.type": "rmsnorm", "model.head.norm.type": "rmsnorm",
                  "model.block.attention.rotary.type": "default",
                  "model.block.attention.kv_heads": LLAMA["kv_heads"],
                  "model.block.mlp.type": "gated_mlp", "model.block.mlp.ffn": LLAMA["ffn"],
                  **{f"model.block.{linear}.bias": False
                     for linear in ("attention.qkv", "attention.proj", "mlp.up", "mlp.down")}}
# Over those: the same FLOPs without what a Llama has and a GPT has not, but for grouped queries.
PLAIN_SETTINGS = {"model.embedding.learned_positions": True,
                  "model.block.norm.type": "layernorm", "model.head.norm.type": "layernorm",
                  "model.block.attention.rotary.type": "none",
                  "model.block.mlp.type": "mlp", "model.block.mlp.ffn": 3 * LLAMA["ffn"] // 2}
EXPERTS = {"experts": 8, "top_k": 2, "ffn": 1536}
EXPERT_SETTINGS = {"model.block.mlp.type": "moe",
                   **{f"model.block.mlp.{key}": value for key, value in EXPERTS.items()}}
EXPERT_RANKS = {"parallel.expert": 2, "batch.micro": 4, **EXPERT_SETTINGS}
# Whatever the router's scores are: experts have equally many rows, or the first two have all.
BALANCED, HOT = ({**EXPERTS, "load": load} for load in ("balanced", "hot"))
FORCED_LOADS = BUILD / "bench/plugins"
FORCED = {"plugins.path": f'["{FORCED_LOADS}"]',
          "model.block.mlp.router.type": "forced_loads"}
TO_ALL, TO_TWO = ({**FORCED, "model.block.mlp.router.loads": load} for load in ("balanced", "hot"))


def bert(sequence, batch, bf16=False):
    """The rest of a row of BERT: Tessera's settings, the peer's shape."""
    settings = {"model.type": "bert", "model.order": "post", "model.vocab": bert_data.TOKENS,
                "model.block.mlp.activation": "gelu_erf", "batch.sequence_length": sequence,
                "batch.global": batch, "batch.micro": batch, **bert_data.SETTINGS,
                **(BF16 if bf16 else {})}
    shape = {"sequence": sequence, "batch": batch, "vocabulary": bert_data.TOKENS}
    return settings, shape, bert_data.TOKENS, bf16


ROWS = [
    Row("a", "1 rank x 2 threads", 1, 2, "gpt.py"),
    Row("b", "2 ranks x 1 thread, tensor parallel", 2, 1, "gpt_tensor_parallel.py",
        {"parallel.tensor": 2}),
    Row("c", "2 ranks x 1 thread, tensor + sequence", 2, 1, "gpt_sequence_parallel.py", SEQUENCE),
    Row("d", "2 ranks x 1 thread, pipeline 1F1B", 2, 1, "gpt_pipeline.py", PIPELINE),
    Row("e", "bf16, 1 rank x 2 threads", 1, 2, "gpt.py", BF16, bf16=True),
    Row("f", "bf16, 2 ranks x 1 thread, tensor", 2, 1, "gpt_tensor_parallel.py",
        {"parallel.tensor": 2, **BF16}, bf16=True),
    Row("g", "GPT-2 124M, 1 rank x 2 threads", 1, 2, "gpt.py", GPT2_SETTINGS, GPT2, 50257),
    Row("i", "bf16, 2 ranks x 1 thread, ZeRO-1", 2, 1, "gpt_data_parallel.py",
        {"parallel.data": 2, "batch.micro": 4, "optimizer.type": "distributed", **BF16},
        bf16=True),
    Row("h", "GPT-2 124M, bf16", 1, 2, "gpt.py", {**GPT2_SETTINGS, **BF16}, GPT2, 50257, True),
    Row("la", "Llama, 1 rank x 2 threads", 1, 2, "llama.py", LLAMA_SETTINGS, LLAMA),
    Row("lb", "Llama, 2 ranks x 1 thread, tensor", 2, 1, "llama_tensor_parallel.py",
        {"parallel.tensor": 2, **LLAMA_SETTINGS}, LLAMA),
    Row("le", "Llama, bf16, 1 rank x 2 threads", 1, 2, "llama.py", {**LLAMA_SETTINGS, **BF16},
        LLAMA, bf16=True),
    Row("lf", "Llama, bf16, 2 ranks, tensor", 2, 1, "llama_tensor_parallel.py",
        {"parallel.tensor": 2, **LLAMA_SETTINGS, **BF16}, LLAMA, bf16=True),
    *(Row(f"{key}{name}", f"BERT {length}{words}{against}", 1, 2, peer,
          *bert(length, 2048 // length, bf16))
      for key, peer, against in (("b", "bert.py", ""),
                                 ("h", "bert_hugging_face.py", ", transformers"))
      for name, length, bf16, words in (("a", 128, False, ""), ("b", 512, False, ""),
                                        ("e", 128, True, ", bf16"), ("f", 512, True, ", bf16"))),
    Row("m", "8 experts, top 2, 1 rank x 2 threads", 1, 2, "gpt_experts.py", EXPERT_SETTINGS,
        EXPERTS),
    Row("n", "8 experts, 2 ranks x 1 thread, expert 2", 2, 1, "gpt_expert_parallel.py",
        EXPERT_RANKS, EXPERTS),
    Row("mb", "as m, equally many rows", 1, 2, "gpt_experts.py", {**EXPERT_SETTINGS, **TO_ALL},
        BALANCED),
    Row("nb", "as n, equally many rows", 2, 1, "gpt_expert_parallel.py",
        {**EXPERT_RANKS, **TO_ALL}, BALANCED),
    Row("mh", "as m, all rows to two experts", 1, 2, "gpt_experts.py",
        {**EXPERT_SETTINGS, **TO_TWO}, HOT),
    Row("nh", "as n, all rows to two experts", 2, 1, "gpt_expert_parallel.py",
        {**EXPERT_RANKS, **TO_TWO}, HOT),
]
# Rows of one side.
COMPARED = [("b", "a"), ("c", "b"), ("d", "a"), ("e", "a"), ("f", "e"), ("i", "e"), ("h", "g"),
            ("la", "a"), ("lb", "la"), ("le", "la"), ("lf", "le"),
            ("be", "ba"), ("bf", "bb"),
            ("m", "a"), ("n", "m"), ("mb", "m"), ("nb", "mb"), ("mh", "m"), ("nh", "mh")]


@dataclass
class Sample:
    tokens_per_second: float
    losses: list
    peaks_mib: list
    imported_mib: float = 0.0  # what `import torch` alone holds, inside the peak


def threads_of(row, options):
    return 1 if options.processor else row.threads


def measure_torch(row, options, data, *switches):
    python, tuned = options.peer
    arguments = [
        *("--data", data, "--threads", threads_of(row, options), "--dropout", options.dropout),
        *("--warmup", options.warmup, "--steps", options.steps),
        *(word for key, value in row.shape.items()
          for word in (f"--{key.replace('_', '-')}", value)),
        *(["--autocast"] if row.bf16 else []),
        *(["--processor"] if options.processor else []),
        *switches,
    ]
    command = [python, str(PEERS / row.peer), *map(str, arguments)]
    shared = {**tuned, **processes.rendezvous(row.ranks)}
    ranks = [(command, {**shared, "RANK": str(rank)}) for rank in range(row.ranks)]
    output, peaks = processes.run(ranks, row.ranks)
    result = json.loads(output.splitlines()[-1])
    return Sample(result["tokens_per_second"], result["losses"], peaks, result["imported_mib"])


def measure_tessera(row, options, _):
    if row.is_bert():
        bert_data.make()
    settings = {"device.threads": threads_of(row, options), "model.dropout": options.dropout,
                **row.settings}
    take = lambda warmup, steps: processes.with_processor_seconds(
        tessera_steps.measure, settings, row.ranks, warmup, steps)
    taken, seconds = take(options.warmup, options.steps)
    speed = taken.tokens_per_second
    if options.processor:
        _, started = take(0, options.warmup)
        speed = row.tokens() * options.steps / ((seconds - started) / row.ranks)
    return Sample(speed, taken.losses, taken.peaks_mib)


def measure(side, row, options, data):
    if side == "tessera":
        return measure_tessera(row, options, data)
    return measure_torch(row, options, data, *SWITCHES[side])


def check(row, side, sample):
    """Both must really train: a guess over the vocabulary at first, less surprised later; a few
    samples of BERT tell much apart, so at some step."""
    first, later = sample.losses[0], min(sample.losses[1:])
    if not (abs(first - row.guess()) < 0.4 and later < first):
        sys.exit(f"row {row.key}, {side}: losses {sample.losses} are not those of training")


def check_layouts(options, rows, samples):
    """Without dropout a side's layouts must train alike: same seed, same data."""
    for side in SIDES if not options.dropout else ():
        for model in {row.model() for row in rows}:
            alike = [row for row in rows if row.model() == model and (row.key, side) in samples]
            found = [samples[row.key, side][0].losses for row in alike]
            bound = max((row.apart() for row in alike), default=0)
            for losses in found[1:]:
                if (apart := tessera_steps.apart(losses, found[0])) > bound:
                    sys.exit(f"{side}: the losses of its rows are {apart:.1e} apart: {found}")


def run_rounds(options, rows, sides, data):
    samples = {(row.key, side): [] for row in rows for side in row.sides(sides)}
    for number in range(options.rounds):
        order = sides if number % 2 == 0 else sides[::-1]
        for row in rows:
            for side in row.sides(order):
                sample = measure(side, row, options, data)
                check(row, side, sample)
                samples[row.key, side].append(sample)
                print(
                    f"round {number + 1}/{options.rounds} row {row.key} {side:8}"
                    f"{sample.tokens_per_second:8.0f} tokens/s {max(sample.peaks_mib):6.0f} MiB",
                    file=sys.stderr,
                )
    return samples


def speed(samples):
    return statistics.median(s.tokens_per_second for s in samples)


def peak(samples):
    """MiB of the largest training process."""
    return statistics.median(max(s.peaks_mib) for s in samples)


def paired(over, under):
    """Median over rounds of the speed ratio inside a round: a slow minute hits both sides."""
    return statistics.median(
        a.tokens_per_second / b.tokens_per_second for a, b in zip(over, under)
    )


def summarise(rows, samples):
    summary = {}
    for row in rows:
        line = summary[row.key] = {"title": row.title}
        peers = {side: samples[row.key, side] for side in PEERS_OF if (row.key, side) in samples}
        torch = max(peers.values(), key=speed, default=None)
        tessera = samples.get((row.key, "tessera"))
        if torch:
            line["torch_each"] = {side: speed(taken) for side, taken in peers.items()}
            imported = statistics.median(s.imported_mib for s in torch)
            line["torch"] = {"tokens_per_second": speed(torch), "peak_mib": peak(torch)}
            line["torch"]["imported_mib"] = imported
        if tessera:
            line["tessera"] = {"tokens_per_second": speed(tessera), "peak_mib": peak(tessera)}
        if torch and tessera:
            line["speed_ratio"] = paired(tessera, torch)
            line["memory_ratio"] = peak(tessera) / peak(torch)
            line["memory_ratio_without_import"] = peak(tessera) / (peak(torch) - imported)
    for side in SIDES:
        for over, under in COMPARED:
            if (over, side) in samples and (under, side) in samples:
                ratio = paired(samples[over, side], samples[under, side])
                summary[f"{side}_{over}_over_{under}"] = ratio
    return summary


def cell(value, form):
    return "-" if value is None else format(value, form)


def print_table(rows, summary):
    print("tokens/s: median over rounds; ratio: Tessera / PyTorch, paired by round, median")
    print("peak MiB: largest training process; in brackets without what `import torch` holds")
    heads = ("PyTorch", "Tessera", "ratio", "PyTorch MiB", "Tessera MiB", "ratio")
    print(f"{'':40}" + "".join(f"{head:>15}" for head in heads))
    for row in rows:
        line = summary[row.key]
        torch, tessera = line.get("torch", {}), line.get("tessera", {})
        memory = cell(torch.get("peak_mib"), ".0f")
        ratio = cell(line.get("memory_ratio"), ".2f")
        if torch:
            memory += f" ({torch['peak_mib'] - torch['imported_mib']:.0f})"
        if torch and tessera:
            ratio += f" ({line['memory_ratio_without_import']:.2f})"
        cells = (
            cell(torch.get("tokens_per_second"), ".0f"),
            cell(tessera.get("tokens_per_second"), ".0f"),
            cell(line.get("speed_ratio"), ".2f"),
            memory,
            cell(tessera.get("peak_mib"), ".0f"),
            ratio,
        )
        print(f"{row.key}  {row.title:37}" + "".join(f"{text:>15}" for text in cells))
        if len(each := line.get("torch_each", {})) > 1:
            print("   PyTorch " + ", ".join(
                f"{NAMES_OF[side]} {taken:.0f}" for side, taken in each.items()) + " tokens/s")
    for side in SIDES:
        for over, under in COMPARED:
            if (ratio := summary.get(f"{side}_{over}_over_{under}")) is not None:
                print(f"{side}: {over} / {under} = {ratio:.2f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a measurement")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--only", choices=("torch", "tessera"))
    parser.add_argument(
        "--row", action="append", choices=[row.key for row in ROWS], help="again for more; all"
    )
    parser.add_argument(
        "--mkl",
        choices=("tuned", "default"),
        default="tuned",
        help="tuned: PyTorch may use AVX-512 on every processor (peers/mkl_intel_cpu.c)",
    )
    parser.add_argument(
        "--processor",
        action="store_true",
        help="one thread, and processor time instead of time: for a machine that is busy",
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    sides = {"torch": PEERS_OF, "tessera": ("tessera",), None: SIDES}[options.only]
    rows = [row for row in ROWS if not options.row or row.key in options.row]
    if options.processor:
        rows = [row for row in rows if row.peer != "gpt_pipeline.py"]  # its bubble is no work
    if "tessera" in sides and not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not built; --only torch measures the peer alone")
    forced = [row.key for row in rows if "load" in row.shape]
    if "tessera" in sides and forced and not FORCED_LOADS.exists():
        sys.exit(f"rows {', '.join(forced)} need {FORCED_LOADS}: configure with -DTESSERA_BENCH=ON")
    if "torch" in sides:
        wants_megatron = any("megatron" in row.sides(sides) for row in rows)
        options.peer = processes.peer_python(
            options.mkl == "tuned", wants_megatron,
            transformers=any(row.peer == "bert_hugging_face.py" for row in rows))
    data = tessera_steps.training_data()

    try:
        samples = run_rounds(options, rows, sides, data)
    except processes.Failed as failure:
        sys.exit(f"failed: {failure}")
    check_layouts(options, rows, samples)
    summary = summarise(rows, samples)
    print(f"{processes.cpu_model()}; {options.rounds} rounds of {options.steps} steps; "
          f"dropout {options.dropout}; MKL {options.mkl}"
          f"{'; one thread, processor time' if options.processor else ''}")
    print_table(rows, summary)
    taken = {f"{row} {side}": [vars(sample) for sample in of]
             for (row, side), of in samples.items()}
    settings = {key: getattr(options, key) for key in ("rounds", "steps", "dropout")}
    processes.save(options.json, {"mkl": options.mkl, "summary": summary, "options": settings,
                                  "rounds": taken})


if __name__ == "__main__":
    main()
