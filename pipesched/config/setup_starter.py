"""What `pipesched init` writes for a model: a commented config of a training run that fits the memory of its GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from pipesched.checks import require_whole
from pipesched.config.starter import setup_starter_text
from pipesched.estimation.derived import derive
from pipesched.estimation.model_reader import read_model_section
from pipesched.estimation.parameters import parameters
from pipesched.estimation.setup import Setup
from pipesched.estimation.setup_reader import setup_of
from pipesched.text.sections import merged
from pipesched.text.writer import fill, spelled

USUAL_HARDWARE = "h100-sxm"
USUAL_SEQUENCE = 4096
ROUNDS = 4  # microbatches a device of the pipeline
STATES = 18  # bytes of a parameter: 16-bit weights, 32-bit gradients, Adam
MOST_GPUS = 1_000_000
RANKS = (1, 2, 4, 8)

WARNING = "\n# No layout was found that fits their memory; `pipesched estimate` says by how much."


def setup_starter(model: str, hardware: str | None = None, gpus: int | None = None) -> str:
    """Return a commented config of a model on GPUs, whose layout fits their memory where one is found that does.

    Raises ConfigError for an unknown model or hardware.
    """
    if gpus is not None:
        require_whole(gpus, "parallel.gpus", least=1, most=MOST_GPUS)
    gpu = USUAL_HARDWARE if hardware is None else hardware
    setup, fits = _laid_out(model, gpu, gpus)
    parallel, batch = setup.parallel, setup.batch
    values = {
        "name": spelled(setup.name),
        "model": spelled(model),
        "hardware": spelled(gpu),
        **{f"parallel.{key}": getattr(parallel, key) for key in ("gpus", "tensor", "pipeline", "expert", "data")},
        "batch.sequence": batch.sequence,
        "batch.global": batch.size,
        "training.recompute": setup.training.recompute,
    }
    remarks = {"title": setup.name, "microbatches": str(setup.microbatches), "warning": "" if fits else WARNING}
    return fill(setup_starter_text(), values, remarks)


def _setup(name: str, hardware: str, gpus: int, tensor: int = 1, pipeline: int = 1, recompute: str = "none") -> Setup:
    """Return the training run of a layout; experts are spread over up to 8 ranks."""
    model = read_model_section(merged(None, name, "model")).model
    data = gpus // (tensor * pipeline)
    experts = 1 if model.experts is None else gcd(model.experts.count, tensor * data, RANKS[-1])
    sequence = min(USUAL_SEQUENCE, model.position_rows or USUAL_SEQUENCE)
    return setup_of(
        model=name,
        hardware=hardware,
        parallel={"gpus": gpus, "tensor": tensor, "pipeline": pipeline, "expert": experts},
        batch={"sequence": sequence, "global": ROUNDS * pipeline * data},
        training={"recompute": recompute},
    ).setup


def _laid_out(model: str, hardware: str, gpus: int | None) -> tuple[Setup, bool]:
    """Return the first setup that fits, by rising numbers of GPUs where none is given; else the last, and that."""
    found = alone = _setup(model, hardware, 1)
    for count in [gpus] if gpus is not None else [_enough(alone) * more for more in (1, 2, 4)]:
        for recompute in ("none", "full"):
            for tensor, pipeline in _layouts(alone, count):
                found = _setup(model, hardware, count, tensor, pipeline, recompute)
                if _fits(found):
                    return found, True
    return found, False


def _enough(setup: Setup) -> int:
    """Return a number of GPUs whose memory holds the states twice, a power of two of at least 8."""
    needed = 2 * STATES * parameters(setup.model).total / (setup.hardware.memory * 1e9)
    return int(max(8, 2 ** (int(needed) - 1).bit_length())) if needed > 1 else 8


def _layouts(setup: Setup, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield tensor and pipeline by how many ranks hold the model; tensor stays in a node, and divides the model."""
    node, model = min(setup.hardware.gpus_per_node, gpus), setup.model
    sizes = [gpus, model.heads, model.ffn] + ([model.kv_heads] if model.latent is None else [])
    tensors = [ranks for ranks in RANKS if ranks <= node and not any(size % ranks for size in sizes)]
    pairs = [
        (tensor, pipeline)
        for tensor in tensors
        for pipeline in range(1, min(gpus // tensor, model.layers) + 1)
        if gpus // tensor % pipeline == 0 and (pipeline > 1 or gpus == tensor)
    ]
    yield from sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]))


def _fits(setup: Setup) -> bool:
    """Return whether a setup fits its memory under 1F1B."""
    from pipesched.results.outcome import run

    return run(derive(setup, {}), "1f1b").schedule.fits
