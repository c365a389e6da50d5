"""Training in 8 or 4 bits: what each recipe runs, keeps and sends in them.

In low precision run the products of the linear layers of blocks: of attention, of MLPs and of experts, forward, input
gradient and weight gradient. Embedding, head, loss, norms, router, attention core, residuals, gradients and optimizer
stay as in bf16. After the recipes of Megatron-Bridge (commit 067f987, `mixed_precision.py`) for Transformer Engine, and
for blocks DeepSeek-V3 (arXiv 2412.19437, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.hardware import GpuModel

BF16, FP16, FP32 = WIDE = ("bf16", "fp16", "fp32")
FP8, BLOCKWISE, MXFP8, NVFP4 = LOW = ("fp8", "fp8-blockwise", "mxfp8", "nvfp4")
PRECISIONS = (*WIDE, *LOW)
FULL_BYTES = 2  # of a number in 16 bits


class Recipe(NamedTuple):
    """How a precision is trained. `peak` is the number of a GPU that its products are measured by.

    Bytes of a number: `each` with its scales, `master` of a weight in 16 bits beside its copies, `gathered` of a weight
    that data-parallel ranks gather, `dispatched` of what is sent to experts. `copies`: a number is kept in the order of
    its rows and in that of its columns; with None where products take one order only. `passes` are those over a tensor
    before its numbers are written.
    """

    peak: str
    each: Fraction
    copies: int | None
    gathered: Fraction
    master: int = 0
    dispatched: Fraction = Fraction(FULL_BYTES)
    passes: int = 1

    def copies_on(self, hardware: GpuModel) -> int:
        """Return how many copies of a number products need: Hopper's take one order, later GPUs' either."""
        return self.copies or (1 if hardware.mxfp8 else 2)

    def weight_bytes(self, hardware: GpuModel) -> Fraction:
        """Return the bytes of a weight."""
        return self.master + self.copies_on(hardware) * self.each

    def moved_bytes(self, hardware: GpuModel) -> Fraction:
        """Return the bytes that are read and written for a number in 16 bits that becomes one of few."""
        return FULL_BYTES * self.passes + self.copies_on(hardware) * self.each


BYTE, BLOCKS = Fraction(1), 1 + Fraction(1, 32)  # with a 32-bit scale for 128 numbers, or an 8-bit one for 32
FOUR_BITS = Fraction(1, 2) + Fraction(1, 16)  # with an 8-bit scale for 16 numbers
WHOLE = Fraction(FULL_BYTES)
RECIPES: Mapping[str, Recipe] = {
    FP8: Recipe("fp8", BYTE, None, BYTE),  # a scale a tensor, of earlier steps or of this one
    BLOCKWISE: Recipe("fp8", BLOCKS, None, WHOLE, master=FULL_BYTES, dispatched=BLOCKS),  # of 1 x 128, 128 x 128
    MXFP8: Recipe("mxfp8", BLOCKS, 2, WHOLE),  # of 1 x 32
    NVFP4: Recipe("nvfp4", FOUR_BITS, 2, FOUR_BITS, passes=2),  # of 1 x 16, and one a tensor; rotated and rounded
}


def require_precision(hardware: GpuModel, precision: str, key: str = "training.precision") -> None:
    """Raise ConfigError about `key` for a precision whose products a GPU does not have."""
    if precision in RECIPES and getattr(hardware, RECIPES[precision].peak) is None:
        known = ", ".join(precisions_of(hardware))
        raise ConfigError(f"{hardware.name} has no products in {precision}; it has {known}", key)


def precisions_of(hardware: GpuModel) -> tuple[str, ...]:
    """Return the precisions that a GPU trains in."""
    return (*WIDE, *(name for name, recipe in RECIPES.items() if getattr(hardware, recipe.peak) is not None))
