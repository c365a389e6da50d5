"""The mixture of experts of a config.json: which layers have one, how many experts, how wide."""

from __future__ import annotations

from pipesched.checks import shown
from pipesched.estimation.model import Experts
from pipesched.estimation.model_keys import MOST_LAYERS, ModelKeys

COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")
STEPS = ("decoder_sparse_step", "moe_layer_freq")


def read_experts(keys: ModelKeys, ffn: int, layers: int) -> Experts | None:
    """Return the mixture of experts where there are its keys. Raises ConfigError about the key at fault."""
    given = next((name for name in COUNTS if keys.has(name)), None)
    if given is None or keys.whole(given, least=0) == 0:
        return None
    count, width = keys.whole(given), keys.whole("moe_intermediate_size", ffn)
    shared = keys.whole("n_shared_experts", 0, least=0) * width
    return Experts(
        count=count,
        active=keys.whole("num_experts_per_tok", most=count),
        width=width,
        shared=keys.whole("shared_expert_intermediate_size", shared, least=0),
        dense_layers=_dense_layers(keys, layers),
    )


def _dense_layers(keys: ModelKeys, layers: int) -> int:
    """Return how many of the first layers have no experts. Raises ConfigError where others have none."""
    for step in STEPS:
        if keys.has(step) and keys.plain(step) != 1:
            value = shown(keys.plain(step))
            raise keys.error(step, f"must be 1: only the first layers may have no experts, not {value}")
    first = keys.whole("first_k_dense_replace", 0, least=0, most=min(layers, MOST_LAYERS))
    if not keys.has("mlp_only_layers") or keys.plain("mlp_only_layers") == []:
        return first
    listed = keys.plain("mlp_only_layers")
    if not isinstance(listed, list) or listed != list(range(len(listed))) or len(listed) > layers:
        raise keys.error("mlp_only_layers", f"must be the first layers, [0, 1, ..] or [], not {shown(listed)}")
    return max(first, len(listed))
