"""Random numbers that depend on the operation alone: the same in a pipeline, in its recomputation, and without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch

from pipesched.checks import require_whole


@contextmanager
def seeded(seed: int, step: int, stage: int, microbatch: int) -> Iterator[None]:
    """Draw PyTorch's random numbers from generators that are seeded by these four; the caller's are restored behind.

    The runtime runs the forward of a stage, and its recomputation, in this context, with the steps counted from 0. To
    compare with a model that is not pipelined, run each of its stages on each microbatch in the same context. The
    generators are those of the CPU and of the current CUDA device. Raises ConfigError for what is no whole number of
    at least 0.
    """
    value = _number(seed, step, stage, microbatch)
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(value)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def _number(seed: int, step: int, stage: int, microbatch: int) -> int:
    """Return 63 bits of a hash of the four, so that neighbours have nothing in common."""
    given = {"seed": seed, "step": step, "stage": stage, "microbatch": microbatch}
    text = ",".join(str(require_whole(value, key)) for key, value in given.items())
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
