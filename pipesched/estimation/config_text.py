"""A derived problem as an ordinary config, with comments that say what was derived from what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.derived import budget_of
from pipesched.estimation.result import Estimate
from pipesched.pipeline.quantities import Exact, to_fraction
from pipesched.schedulers.family import ANY
from pipesched.schedulers.registry import family

DECIMALS = 3  # of ms and of GB
PART_DECIMALS = 4
DEVICE = "device"  # lanes that need no word
GIVEN = "as given"
COLUMN = 60


def config_text(estimate: Estimate) -> str:
    """Return a config of the problem of an estimate: times to 0.001 ms, memory to 0.001 GB."""
    return "\n".join(_lines(estimate)) + "\n"


def _lines(estimate: Estimate) -> Iterator[str]:
    setup, problem = estimate.setup, estimate.problem
    parallel = setup.parallel
    ways = ", ".join(
        f"{key} {getattr(parallel, key)}" for key in ("tensor", "pipeline", "chunks", "context", "expert", "data")
    )
    yield f"# Costs and memory of {setup.model.name} on {parallel.gpus} {setup.hardware.name}, estimated by pipesched."
    yield f"# {ways}; microbatches of {setup.batch.micro} x {setup.batch.sequence} tokens."
    yield f"# Stages, as Megatron-LM writes them: {estimate.layout}"
    yield from (f"# {note}" for note in estimate.notes)
    yield ""
    yield f"name: {_quoted(problem.name or setup.model.name)}"
    yield f"devices: {problem.devices}"
    yield f"stages: {problem.stages}"
    yield f"microbatches: {problem.microbatches}  # of a step of {estimate.sequences} sequences"
    placement = problem.settled_placement
    if placement.mirrored:
        yield "placement: bidirectional"
    elif family(estimate.outcome.algorithm).placement == ANY:
        yield from _wrapped(f"placement: [{', '.join(map(str, placement.devices))}]")
    yield f"algorithm: {_algorithm(estimate)}"
    yield "time_unit: ms"
    if problem.lanes != DEVICE:
        yield f"lanes: {problem.lanes}"
    written = _Entries(estimate.cutter.replaced)
    yield from ("", "costs:", *_costs(estimate, written))
    yield from ("", "memory:", "  unit: GB", *_memory(estimate, written))


def _costs(estimate: Estimate, written: _Entries) -> Iterator[str]:
    costs = estimate.problem.costs
    yield from written.entry(
        "forward", costs.forward, "products, attention, elementwise work, exposed communication, kernels"
    )
    if costs.split:
        yield from written.entry("backward_input", costs.backward_input, "the same of the input gradient")
        yield from written.entry("backward_weight", costs.backward_weight, "products of the weight gradient")
    else:
        halves = zip(costs.backward_input, costs.backward_weight, strict=True)
        yield from written.entry("backward", [to_fraction(one) + to_fraction(other) for one, other in halves])
    yield from written.entry("recompute", costs.recompute, "a forward again")
    if costs.overlap is not None:
        yield from written.entry("overlap", costs.overlap)
    yield from written.entry("p2p", costs.p2p or (0,), "a microbatch's activations on their way to the next stage")
    if costs.offload is not None:
        yield from written.entry(
            "offload", costs.offload, f"an activation over PCIe at {estimate.setup.hardware.pcie:g} GB/s"
        )
    if costs.reload is not None and costs.reload != costs.offload:
        yield from written.entry("reload", costs.reload)


def _memory(estimate: Estimate, written: _Entries) -> Iterator[str]:
    setup, memory = estimate.setup, estimate.problem.memory
    yield from written.entry("activation", memory.activation, "what a microbatch leaves from forward to backward")
    if any(share != 1 for share in memory.retain):
        yield from written.entry("retain", memory.retain, decimals=PART_DECIMALS)
    yield from written.entry(
        "checkpoint", memory.checkpoint, "the inputs of layers, as a part of that", decimals=PART_DECIMALS
    )
    yield from written.entry("static", memory.static, "weights, gradients, optimizer, and logits at the last stage")
    if memory.budget is not None:
        is_own = {*memory.budget} == {budget_of(setup)}
        text = f"of {setup.hardware.memory:g} GB, less the GPU's context and 4 % that fragments"
        yield from written.entry("budget", memory.budget, text if is_own else GIVEN)


def _algorithm(estimate: Estimate) -> str:
    """Return what `algorithm` is: a name, or one name with its options."""
    name = estimate.outcome.algorithm
    options = ", ".join(f"{key}: {_plain(value)}" for key, value in estimate.options.items() if value is not None)
    return f"{{{name}: {{{options}}}}}" if options else name


def _plain(value: object) -> str:
    """Return the value of an option as YAML has it: JSON is a part of that."""
    return json.dumps(value, default=list)


class _Entries(NamedTuple):
    """The entries of costs and memory, of which the `replaced` ones are not derived."""

    replaced: Mapping[str, object]

    def entry(
        self, key: str, values: Sequence[Exact], comment: str = GIVEN, *, decimals: int = DECIMALS
    ) -> Iterator[str]:
        """Yield a key with its numbers, one for all where they are equal, and a comment above it."""
        numbers = [_rounded(value, decimals) for value in values]
        text = numbers[0] if len({*numbers}) == 1 else f"[{', '.join(numbers)}]"
        yield f"  # {GIVEN if key in self.replaced else comment}"
        yield from _wrapped(f"  {key}: {text}")


def _rounded(value: Exact, decimals: int) -> str:
    number = round(to_fraction(value), decimals)
    text = f"{float(Fraction(number)):.{decimals}f}".rstrip("0").rstrip(".")
    return text or "0"


def _wrapped(line: str, width: int = 118) -> Iterable[str]:
    """Return a line of a list cut behind commas."""
    lines = []
    while len(line) > width:
        cut = line.rfind(", ", 0, width) + 1
        if cut <= 0:
            break
        lines.append(line[:cut])
        line = "    " + line[cut:].lstrip()
    return [*lines, line]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
