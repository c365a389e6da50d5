"""Which ways of parallelism suit the shapes of a model: its heads, its experts, its layers; what divides a number."""

from __future__ import annotations

from math import isqrt

from pipesched.errors import ConfigError
from pipesched.estimation.model import ModelShape


def items_of(model: ModelShape) -> int:
    """Return how many things of a model can be cut into stages: its layers, MTP layers, the embedding and the head."""
    return model.layers + model.mtp + 2


def require_tensor(model: ModelShape, tensor: int) -> None:
    """Raise ConfigError where heads, or the width of the MLP, do not divide among the ranks."""
    sizes = {f"{model.heads} attention heads": model.heads, f"width {model.ffn} of the MLP": model.ffn}
    if model.latent is None and tensor % model.kv_heads:
        sizes[f"{model.kv_heads} heads of keys and values"] = model.kv_heads
    for what, size in sizes.items():
        _require_divisor("tensor", tensor, size, what)


def require_experts(model: ModelShape, expert: int, expert_tensor: int) -> None:
    """Raise ConfigError where experts do not divide among the ranks."""
    experts = model.experts
    for key, size in (("expert", expert), ("expert_tensor", expert_tensor)):
        if experts is None and size > 1:
            raise ConfigError(f"must be 1: {model.name} has no experts", f"parallel.{key}")
    if experts is not None:
        _require_divisor("expert", expert, experts.count, f"{experts.count} experts")
        _require_divisor("expert_tensor", expert_tensor, experts.width, f"width {experts.width} of an expert")


def require_stages(model: ModelShape, pipeline: int, chunks: int) -> None:
    """Raise ConfigError for more stages than there is to hold; the embedding or the head may be a stage."""
    most = items_of(model)
    if pipeline * chunks <= most:
        return
    has = f"{model.name} has {model.layers} layers, an embedding and a head" + (" and MTP layers" if model.mtp else "")
    if pipeline > most or chunks == 1:
        raise ConfigError(f"must be at most {most // min(chunks, most)}, not {pipeline}: {has}", "parallel.pipeline")
    key, found = "parallel.chunks", f"{pipeline} x {chunks} = {pipeline * chunks} stages"
    raise ConfigError(f"must be at most {most // pipeline}, not {chunks}: {has}, not the {found}", key)


def _require_divisor(key: str, number: int, of: int, what: str) -> None:
    """Raise ConfigError, about a key of `parallel`, for a number that does not divide another."""
    if of % number:
        near = nearest_divisors(number, of)
        raise ConfigError(f"must divide the {what}: for instance {near}, not {number}", f"parallel.{key}")


def divisors(number: int) -> tuple[int, ...]:
    """Return the numbers that divide another, ascending."""
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return tuple(sorted({*small, *(number // size for size in small)}))


def nearest_divisors(number: int, of: int) -> str:
    """Return as text the divisors of a number that are nearest to another one, below and above it."""
    below = [size for size in divisors(of) if size <= number][-1:]
    above = [size for size in divisors(of) if size > number][:1]
    return " or ".join(map(str, below + above))


def nearest_multiples(number: int, of: int) -> str:
    """Return as text the multiples that are nearest to a number, below and above it."""
    low = number // of * of
    return f"{low} or {low + of}" if low else f"{of}"
