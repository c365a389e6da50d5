"""Problems whose step has more than passes, for tests: gathers, reductions, optimizers, shards and side work."""

from __future__ import annotations

from typing import Any

REDUCED: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 10, "gather": 15, "reduce": 30, "optimizer": 5,
}  # fmt: skip
TIED: dict[str, Any] = {**REDUCED, "tied": 8}
SHARDED: dict[str, Any] = {
    "devices": 2, "stages": 8, "microbatches": 4, "forward": 5, "backward": 10, "activation": 1, "gather": 4,
    "reduce": 4, "weights": 2, "gradients": 4, "states": 12, "shard": "weights",
}  # fmt: skip
SIDE: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 5,
    "side": [{"forward": 2, "backward": 4, "activation": 0.5, "output": 0.1}],
}  # fmt: skip
SMALL: dict[str, Any] = {"devices": 2, "microbatches": 2, "gather": 2, "reduce": 3, "optimizer": 1, "tied": 1}
