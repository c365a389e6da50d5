"""Where a number of an estimate comes from: the formula, with its values, of each part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.checks import require_name
from pipesched.errors import ConfigError
from pipesched.estimation.communication import boundary_time, is_across
from pipesched.estimation.in_flight import held_counts
from pipesched.estimation.items import (
    GB,
    KINDS,
    LAYER,
    MACHINES,
    MTP,
    STATES,
    Item,
    backward_pieces,
    copies_sent,
    forward_pieces,
    pair_time,
    partner,
)
from pipesched.estimation.memory import fixed, logits
from pipesched.estimation.result import Estimate, sizes_beside
from pipesched.estimation.step import GATHER, REDUCE, step_terms
from pipesched.estimation.terms import PER_MS, Term, Terms, total
from pipesched.estimation.times import OPERATIONS

TIMES, SIZES = (*OPERATIONS, "recompute"), (*STATES, "activation", "checkpoint", "parameters")
NETWORK = (GATHER, REDUCE)  # of a stage, once
MS, COUNT = "ms", ""
_SCHEDULED = {  # of a step whose gathers, reductions and optimizers are operations of its schedule
    "communication": "makespan less that with gathers and reductions of no length",
    "optimizer": "makespan without those less that without optimizers too",
    "time": "makespan with gathers, reductions and optimizers",
}


class TraceLine(NamedTuple):
    """A line of a trace: how deep it stands, what it is, its value in the unit of the trace, and its formula."""

    depth: int
    name: str
    value: float
    formula: str


class Trace(NamedTuple):
    """The address of a number, its value and unit, and the parts that it is the sum of."""

    address: str
    value: float
    unit: str
    parts: tuple[TraceLine, ...]


def trace(estimate: Estimate, address: str) -> Trace:
    """Return where a number comes from, by its address: `stage.3.forward`. Raises ConfigError for none."""
    kind, *rest = address.split(".")
    readers: Mapping[str, Callable[[Estimate, Sequence[str]], Any]] = {
        "stage": _of_stage,
        "device": _of_device,
        "step": _of_step,
        **dict.fromkeys(KINDS, lambda estimate, rest: _of_item(estimate, kind, rest)),
    }
    require_name(readers, kind, "part of an estimate", "trace")
    value, unit, parts = readers[kind](estimate, rest)
    return Trace(address, value, unit, tuple(parts))


def _unit(what: str) -> tuple[str, float]:
    """Return the unit of a number, and what its terms are divided by."""
    return (COUNT, 1) if what == "parameters" else (MS, 1) if what in TIMES else ("GB", GB)


def _parts(terms: Terms, scale: float, depth: int = 0) -> Iterator[TraceLine]:
    for term in terms:
        yield TraceLine(depth, term.name, float(term.value) / scale, term.formula)


def _of_item(estimate: Estimate, kind: str, rest: Sequence[str]) -> tuple[float, str, list[TraceLine]]:
    of_kind = [item for item in estimate.items.each if item.kind == kind]
    if not of_kind:
        raise ConfigError(f"the model has no {kind}", "trace")
    number, what = (_number(rest, len(of_kind), kind), _last(rest[1:])) if kind in (LAYER, MTP) else (0, _last(rest))
    require_name((*TIMES, *SIZES), what, f"number of a {kind}", "trace")
    unit, scale = _unit(what)
    parts = list(_parts(_terms(of_kind[number], what), scale))
    return sum(part.value for part in parts), unit, parts


def _terms(item: Item, what: str) -> Terms:
    terms: Terms = getattr(item.times if what in TIMES else item.memory, what)
    return terms


def _of_stage(estimate: Estimate, rest: Sequence[str]) -> tuple[float, str, list[TraceLine]]:
    number, what = _number(rest, len(estimate.stages), "stage"), _last(rest[1:])
    once = NETWORK if estimate.setup.training.shard is not None else ()
    require_name((*TIMES, *SIZES, "p2p", "overlap", *once), what, "number of a stage", "trace")
    if what in ("p2p", "overlap"):
        return (_of_boundary if what == "p2p" else _of_pair)(estimate, number)
    if what in NETWORK:
        terms = step_terms(estimate.setup, estimate.stages[number], what)
        return float(total(terms)), MS, list(_parts(terms, 1))
    (unit, scale), stage, shown, parts = _unit(what), estimate.stages[number], set(), list[TraceLine]()
    for term in stage.terms(what):  # the items, each kind with its own parts below it
        parts += _parts((term,), scale)
        of_kind = (item for item in stage.held if item.kind == term.kind)
        each = ((item, item.time(what) / PER_MS if what in TIMES else item.size(what)) for item in of_kind)
        item = next((item for item, value in each if term.value == term.count * value), None)
        if item is not None and id(item) not in shown:
            shown.add(id(item))
            parts += _parts(_terms(item, what), scale, 1)
    return sum(part.value for part in parts if not part.depth), unit, parts


def _of_boundary(estimate: Estimate, number: int) -> tuple[float, str, list[TraceLine]]:
    devices = estimate.problem.settled_placement.devices
    if number == len(devices) - 1:
        raise ConfigError(f"stage {number} is the last: nothing is sent on", "trace")
    if estimate.problem.links is not None:
        raise ConfigError("`links` were given, so no latency is derived from the network", "trace")
    here, there = devices[number : number + 2]
    across, copies = is_across(estimate.setup, here, there), copies_sent(estimate.stages)[number]
    term = boundary_time(estimate.setup, across=across, copies=copies)
    return float(term.value), MS, list(_parts((term,), 1))


def _of_pair(estimate: Estimate, number: int) -> tuple[float, str, list[TraceLine]]:
    """Return the least time of a pair F&B with the forward of a stage."""
    if not estimate.cutter.hides_experts:
        raise ConfigError("pairs take the sum of their parts here, or what was given", "trace")
    stages = estimate.stages
    other = partner(stages, estimate.problem.settled_placement, number)
    parts, whole, least = list[TraceLine](), 0, pair_time(stages[number], stages[other])
    for name, stage, pieces in (
        ("forward", number, forward_pieces(stages[number])),
        ("backward", other, backward_pieces(stages[other])),
    ):
        time = sum(piece.time for piece in pieces)
        parts.append(TraceLine(0, name, time / PER_MS, f"of stage {stage}: its pieces, one after another"))
        for piece, count in Counter(pieces).items():
            text = f"{count} x {piece.time / PER_MS:g} ms {MACHINES[piece.machine]}: {piece.formula}"
            parts.append(TraceLine(1, piece.name, count * piece.time / PER_MS, text))
        whole += time
    text = "the most that compute of one and network of the other run at once (Akers 1956)"
    parts.append(TraceLine(0, "at once", (least - whole) / PER_MS, text))
    return least / PER_MS, MS, parts


def _of_device(estimate: Estimate, rest: Sequence[str]) -> tuple[float, str, list[TraceLine]]:
    number, what = _number(rest, len(estimate.devices), "device"), _last(rest[1:])
    beside = sizes_beside(estimate)
    names = (*STATES, "parameters", *beside, "logits", "fixed", "total", "communication", "optimizer_step")
    require_name(names, what, "number of a device", "trace")
    device, stages = estimate.devices[number], estimate.stages_on(number)
    if what in ("communication", "optimizer_step"):
        terms = estimate.once(number)[what == "optimizer_step"]
        return float(total(terms)), MS, list(_parts(terms, 1))
    unit, scale = _unit(what)
    if what in (*STATES, "parameters"):
        if what != "parameters" and estimate.is_static_given:
            raise ConfigError("what stays on a device was given, so none of it is derived", "trace")
        own = [(estimate.stages.index(stage), stage.size(what)) for stage in stages]
        terms = tuple(Term(f"stage {stage}", size, f"stage.{stage}.{what}") for stage, size in own)
    elif what == "total":
        keys = (*STATES, *beside, "logits", "fixed")
        terms = tuple(Term(key, getattr(device, key), f"device.{number}.{key}") for key in keys)
    elif what == "fixed":
        terms = fixed(device.total - device.fixed)
    elif what == "unsharded":
        most = device.unsharded + device.activations
        terms = (
            Term("peak", most, "of activations, whole weights and whole gradients together"),
            Term("activations", -device.activations, f"device.{number}.activations"),
        )
    elif what == "side":
        stays = Fraction(estimate.problem.side_static_grains[number], estimate.problem.grains.per_unit) * GB
        terms = (
            Term("static", stays, "of each item of `side` that runs here"),
            Term("microbatches", device.side - stays, "what its activations and outputs add to the peak"),
        )
    elif what == "logits":
        terms = logits(estimate.setup) if device.logits else ()
    else:
        terms = _held_activations(estimate, number)
    return float(getattr(device, what)) / scale, unit, list(_parts(terms, scale))


def _held_activations(estimate: Estimate, device: int) -> Terms:
    """Return the microbatches of each stage that a device holds when it holds most."""
    sizes = [stage.size("activation") for stage in estimate.stages]

    def held(counts: Mapping[int, int]) -> Fraction:
        return sum((count * sizes[stage] for stage, count in counts.items()), Fraction(0))

    counts = max(held_counts(estimate.outcome.schedule.plan, device), key=held)
    return tuple(
        Term(f"stage {stage}", count * size, f"{count} microbatches x {float(size) / GB:.6g} GB")
        for stage, count, size in ((stage, count, sizes[stage]) for stage, count in sorted(counts.items()) if count)
    )


def _of_step(estimate: Estimate, rest: Sequence[str]) -> tuple[float, str, list[TraceLine]]:
    step, setup, what = estimate.step, estimate.setup, _last(rest)
    require_name(step._fields[1:], what, "number of a step", "trace")
    gpus, peak = setup.parallel.gpus, setup.peak
    seconds = f"({step.time:.6g} ms x {gpus} GPUs)"
    formulas = {
        "pipeline": f"makespan of {step.algorithm}: {estimate.problem.microbatches} microbatches",
        "span": f"span of {step.algorithm}",
        "communication": "the largest of all devices: device.N.communication",
        "optimizer": "the largest of all devices: device.N.optimizer_step",
        "time": f"{step.pipeline:.6g} + {step.communication:.6g} + {step.optimizer:.6g} ms",
        **(_SCHEDULED if estimate.has_step else {}),
        "tokens_per_second_per_gpu": f"{estimate.tokens} tokens / {seconds}",
        "model_tflops_per_gpu": f"{estimate.flops / 1e12:.6g} TFLOP / {seconds}",
        "mfu": f"{estimate.flops / 1e12:.6g} TFLOP / {seconds} / {peak:g} TFLOP/s",
        "hfu": f"({estimate.flops / 1e12:.6g} + {estimate.flops_again / 1e12:.6g} again) TFLOP / {seconds} / {peak:g}",
    }
    value, is_time = float(getattr(step, what)), what in ("pipeline", "span", "communication", "optimizer", "time")
    return value, MS if is_time else COUNT, [TraceLine(0, what, value, formulas[what])]


def _number(rest: Sequence[str], count: int, kind: str) -> int:
    """Return the number of a stage, a device or a layer. Raises ConfigError."""
    text = rest[0] if rest else ""
    if not text.isdecimal() or int(text) >= count:
        raise ConfigError(f"{kind} {text or '?'} is none: there are {kind} 0 to {count - 1}", "trace")
    return int(text)


def _last(rest: Sequence[str]) -> str:
    """Return the last word of an address. Raises ConfigError."""
    if len(rest) != 1:
        examples = "stage.3.forward, layer.0.activation, device.0.fixed or step.mfu"
        raise ConfigError(f"an address looks like {examples}", "trace")
    return rest[0]


def trace_document(found: Trace) -> dict[str, Any]:
    """Return format "pipesched.trace" (version 1)."""
    parts = [part._asdict() for part in found.parts]
    return {"format": "pipesched.trace", "version": 1, **found._replace(parts=())._asdict(), "parts": parts}
