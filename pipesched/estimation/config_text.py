"""A derived problem as an ordinary config, with comments that say what was derived from what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from pipesched.estimation.result import Estimate
from pipesched.pipeline.quantities import Exact, to_fraction

DECIMALS = 3  # of ms and of GB
COLUMN = 60


def config_text(estimate: Estimate) -> str:
    """Return a config of the problem of an estimate: times to 0.001 ms, memory to 0.001 GB."""
    return "\n".join(_lines(estimate)) + "\n"


def _lines(estimate: Estimate) -> Iterator[str]:
    setup, problem = estimate.setup, estimate.problem
    parallel, costs, memory = setup.parallel, problem.costs, problem.memory
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
    yield f"microbatches: {problem.microbatches}  # of a step of {setup.batch.size} sequences"
    if problem.placement is not None and problem.placement.mirrored:
        yield "placement: bidirectional"
    yield f"algorithm: {estimate.outcome.algorithm}"
    yield "time_unit: ms"
    yield ""
    yield "costs:"
    yield from _entry("forward", costs.forward, "products, attention, elementwise work, exposed communication, kernels")
    yield from _entry("backward_input", costs.backward_input, "the same of the input gradient")
    yield from _entry("backward_weight", costs.backward_weight, "products of the weight gradient")
    yield from _entry("recompute", costs.recompute, "a forward again")
    yield from _entry("p2p", costs.p2p or (0,), "a microbatch's activations on their way to the next stage")
    if costs.offload is not None:
        yield from _entry("offload", costs.offload, f"an activation over PCIe at {setup.hardware.pcie:g} GB/s")
    yield ""
    yield "memory:"
    yield "  unit: GB"
    yield from _entry("activation", memory.activation, "what a microbatch leaves from forward to backward")
    yield from _entry("checkpoint", memory.checkpoint, "the inputs of layers, as a part of that", 4)
    yield from _entry("static", memory.static, "weights, gradients, optimizer, and logits at the last stage")
    if memory.budget is not None:
        text = f"of {setup.hardware.memory:g} GB, less the GPU's context and 4 % that fragments"
        yield from _entry("budget", memory.budget, text)


def _entry(key: str, values: Sequence[Exact], comment: str, decimals: int = DECIMALS) -> Iterator[str]:
    """Yield a key with its numbers, one for all where they are equal, and a comment above it."""
    numbers = [_rounded(value, decimals) for value in values]
    text = numbers[0] if len({*numbers}) == 1 else f"[{', '.join(numbers)}]"
    yield f"  # {comment}"
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
