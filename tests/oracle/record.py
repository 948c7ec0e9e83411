"""What a training leaves behind, on either side, and how far two of them are apart."""

from dataclasses import dataclass, field

import numpy


@dataclass
class Record:
    losses: list = field(default_factory=list)
    norms: list = field(default_factory=list)  # of the gradients, before clipping
    rates: list = field(default_factory=list)
    validations: dict = field(default_factory=dict)  # by step
    # Tensors by step and name, as Tessera names them: "layers.0.mlp.up.weight" and its moments
    # ".../first_moment", ".../second_moment".
    tensors: dict = field(default_factory=dict)


def relative(found, expected):
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    if found.shape != expected.shape:
        return numpy.inf
    return float(numpy.max(numpy.abs(found - expected) / numpy.abs(expected)))


def distances(found, expected):
    """The worst of each quantity. Parameters: in units of what AdamW may have moved them by then,
    the sum of the rates; moments: of the largest of their tensor."""
    if found.validations.keys() != expected.validations.keys():
        raise KeyError(f"validated at {list(found.validations)}, not {list(expected.validations)}")
    steps = sorted(expected.validations)
    worst = {
        "loss": relative(found.losses, expected.losses),
        "validation": relative(
            [found.validations[s] for s in steps], [expected.validations[s] for s in steps]
        ),
        "norm": relative(found.norms, expected.norms),
        "rate": relative(found.rates, expected.rates),
        "parameter": 0.0,
        "moment": 0.0,
    }
    if found.tensors.keys() != expected.tensors.keys():
        raise KeyError(f"tensors of steps {list(found.tensors)}, not {list(expected.tensors)}")
    for step, tensors in expected.tensors.items():
        moved = sum(expected.rates[:step])
        if tensors.keys() != found.tensors[step].keys():
            raise KeyError(f"step {step}: other tensors {tensors.keys() ^ found.tensors[step]}")
        for name, values in tensors.items():
            apart = numpy.max(numpy.abs(found.tensors[step][name] - values))
            kind = "moment" if "/" in name else "parameter"
            unit = numpy.max(numpy.abs(values)) if "/" in name else moved
            far = float(apart / unit) if unit else numpy.inf if apart else 0.0
            worst[kind] = max(worst[kind], far)
    return worst
