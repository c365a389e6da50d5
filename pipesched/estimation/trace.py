"""`trace`: where a number of an estimate comes from, by its address: the formula, with values, of each part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.checks import require_name
from pipesched.errors import ConfigError
from pipesched.estimation.communication import boundary_time, is_across
from pipesched.estimation.derived import GATHER, REDUCE, step_terms
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
from pipesched.estimation.memory import logits, overhead_terms
from pipesched.estimation.result import Estimate, TrainingStep, sizes_beside
from pipesched.estimation.terms import PER_MS, Term, Terms, total
from pipesched.estimation.times import OPERATIONS
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.kinds import KINDS as LETTERS

TIMES, SIZES = (*OPERATIONS, "recompute"), (*STATES, "activation", "checkpoint", "parameters")
NETWORK = (GATHER, REDUCE)  # of a stage, once
MS, COUNT = "ms", ""
OF_DEVICE = ("logits", "fixed", "total", "communication", "optimizer_step")
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


Traced = tuple[float, str, Sequence[TraceLine]]  # value, unit, parts


def trace(estimate: Estimate, address: str) -> Trace:
    """Return where a number comes from, by its address: `stage.3.forward`. Raises ConfigError for none."""
    kind, *rest = address.split(".")
    readers = {"stage": _of_stage, "device": _of_device, "step": _of_step}
    require_name((*readers, *KINDS), kind, "part of an estimate", "trace")
    items, number = [item for item in estimate.items.each if item.kind == kind], 0
    if kind in KINDS and not items:
        raise ConfigError(f"the model has no {kind}", "trace")
    if kind in ("stage", "device", LAYER, MTP):
        count = len(estimate.stages if kind == "stage" else estimate.devices if kind == "device" else items)
        text = rest[0] if rest else ""
        if not text.isdecimal() or int(text) >= count:
            raise ConfigError(f"{kind} {text or '?'} is none: there are {kind} 0 to {count - 1}", "trace")
        number, rest = int(text), rest[1:]
    if len(rest) != 1:
        examples = "stage.3.forward, layer.0.activation, device.0.fixed or step.mfu"
        raise ConfigError(f"an address looks like {examples}", "trace")
    [what] = rest
    of_items, once = (*TIMES, *SIZES), NETWORK if estimate.setup.training.shard is not None else ()
    names = {
        "stage": (*of_items, "p2p", "overlap", *once),
        "device": (*STATES, "parameters", *sizes_beside(estimate), *OF_DEVICE),
        "step": TrainingStep._fields[1:],
    }
    require_name(names.get(kind, of_items), what, f"number of a {kind}", "trace")
    if kind in readers:
        value, unit, parts = readers[kind](estimate, number, what)
    else:
        unit, scale = _unit(what)
        parts = _lines(_terms(items[number], what), scale)
        value = sum(part.value for part in parts)
    return Trace(address, value, unit, tuple(parts))


def _unit(what: str) -> tuple[str, float]:
    """Return the unit of a number, and what its terms are divided by."""
    return (COUNT, 1) if what == "parameters" else (MS, 1) if what in TIMES else ("GB", GB)


def _lines(terms: Terms, scale: float = 1, depth: int = 0) -> list[TraceLine]:
    return [TraceLine(depth, term.name, float(term.value) / scale, term.formula) for term in terms]


def _milliseconds(*terms: Term) -> Traced:
    return float(total(terms)), MS, _lines(terms)


def _terms(item: Item, what: str) -> Terms:
    terms: Terms = getattr(item.times if what in TIMES else item.memory, what)
    return terms


def _of_stage(estimate: Estimate, number: int, what: str) -> Traced:
    """Trace a number of a stage: its items, and below each kind of these its own parts."""
    if what in ("p2p", "overlap"):
        return (_of_boundary if what == "p2p" else _of_pair)(estimate, number)
    stage = estimate.stages[number]
    if what in NETWORK:
        return _milliseconds(*step_terms(estimate.setup, stage, what))
    (unit, scale), shown, parts = _unit(what), set(), list[TraceLine]()
    for term in stage.terms(what):  # the items, each kind with its own parts below it
        parts += _lines((term,), scale)
        of_kind = (item for item in stage.held if item.kind == term.kind)
        each = ((item, item.time(what) / PER_MS if what in TIMES else item.size(what)) for item in of_kind)
        item = next((item for item, value in each if term.value == term.count * value), None)
        if item is not None and id(item) not in shown:
            shown.add(id(item))
            parts += _lines(_terms(item, what), scale, 1)
    return sum(part.value for part in parts if not part.depth), unit, parts


def _of_boundary(estimate: Estimate, number: int) -> Traced:
    devices = estimate.problem.settled_placement.devices
    if number == len(devices) - 1:
        raise ConfigError(f"stage {number} is the last: nothing is sent on", "trace")
    if estimate.problem.links is not None:
        raise ConfigError("`links` were given, so no latency is derived from the network", "trace")
    here, there = devices[number : number + 2]
    across, copies = is_across(estimate.setup, here, there), copies_sent(estimate.stages)[number]
    return _milliseconds(boundary_time(estimate.setup, across=across, copies=copies))


def _of_pair(estimate: Estimate, number: int) -> Traced:
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


def _of_device(estimate: Estimate, number: int, what: str) -> Traced:
    """Trace a number of a device: its stages, or the parts of its memory."""
    if what in ("communication", "optimizer_step"):
        return _milliseconds(*estimate.once(number)[what == "optimizer_step"])
    (unit, scale), device, stages = _unit(what), estimate.devices[number], estimate.stages_on(number)
    if what in (*STATES, "parameters"):
        if what != "parameters" and estimate.is_static_given:
            raise ConfigError("what stays on a device was given, so none of it is derived", "trace")
        own = [(estimate.stages.index(stage), stage.size(what)) for stage in stages]
        terms = tuple(Term(f"stage {stage}", size, f"stage.{stage}.{what}") for stage, size in own)
    elif what == "total":
        keys = (*STATES, *sizes_beside(estimate), "logits", "fixed")
        terms = tuple(Term(key, getattr(device, key), f"device.{number}.{key}") for key in keys)
    elif what == "fixed":
        terms = overhead_terms(device.total - device.fixed)
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
    return float(getattr(device, what)) / scale, unit, _lines(terms, scale)


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


def held_counts(plan: Plan, device: int) -> Iterator[dict[int, int]]:
    """Yield how many microbatches of each stage a device holds after each forward, which in a pair comes first."""
    index, counts = plan.index, dict[int, int]()
    kinds = [LETTERS[letter] for letter in index.letters for _ in range(index.stages)]
    changes = [1 if one.takes == "activation" else -int(one.gives in ("activation", "retained")) for one in kinds]
    for slot in plan.orders[device]:
        for number in (slot, plan.pairs[slot]) if slot in plan.pairs else (slot,):
            change = changes[index.row_of(number)] if number < index.passes else 0  # beside passes nothing is taken
            if change:
                stage = index.stage_of(number)
                counts[stage] = counts.get(stage, 0) + change
            if change > 0:
                yield dict(counts)


def _of_step(estimate: Estimate, _: int, what: str) -> Traced:
    step, setup = estimate.step, estimate.setup
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


def trace_document(found: Trace) -> dict[str, Any]:
    """Return format "pipesched.trace" (version 1)."""
    parts = [part._asdict() for part in found.parts]
    return {"format": "pipesched.trace", "version": 1, **found._replace(parts=())._asdict(), "parts": parts}
