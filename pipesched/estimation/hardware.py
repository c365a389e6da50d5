"""A `GpuModel`: peak rate, memory, links; `Efficiency`: shares of these that training reaches; `Recipe`: few bits.

Shares are written in a preset, in a config, or in a profile of one's own, by the keys of `Efficiency`. `gemm` is short
for the first three: a number for all of them, or a mapping of forward, backward_input and backward_weight.

In 8 or 4 bits run the products of the linear layers of blocks: of attention, of MLPs and of experts, forward, input
gradient and weight gradient. Embedding, head, loss, norms, router, attention core, residuals, gradients and optimizer
stay as in bf16. After the recipes of Megatron-Bridge (commit 067f987, `mixed_precision.py`) for Transformer Engine, and
for blocks DeepSeek-V3 (arXiv 2412.19437, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import NamedTuple

from pipesched.checks import require_label, require_number, require_whole
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import MEMORY
from pipesched.pipeline.problem.shapes import ByKey, Count, Either, Number, declare, declared

MOST = 1e9
LOW_PEAKS = ("fp8", "mxfp8", "nvfp4")  # peaks of products in few bits, and the shares of them that these reach


@dataclass(frozen=True)
class Efficiency:
    """Which shares of a GPU's numbers training reaches, fitted on published runs or measured.

    `gemm_forward`, `gemm_input` and `gemm_weight` are shares of the peak rate that large matrix products of a forward,
    of an input gradient and of a weight gradient reach. `core` is that of attention between queries, keys and values
    where it is fused, `unfused` where it is not. `memory` is a share of the memory's bandwidth, for elementwise work.
    `network` is a share of a link's, for collectives. `kernel` are microseconds of a kernel beside its work, `latency`
    milliseconds that messages between stages hold a GPU up, with each forward and each backward of a stage.
    `tensor_exposed` and `data_exposed` are the parts of tensor-parallel communication (where it overlaps with products)
    and of data-parallel communication that nothing hides. `fp8`, `mxfp8` and `nvfp4` say how much of the share that
    products in 16 bits reach of their peak those in low precision reach of theirs.

    Raises ConfigError, about the field at fault.
    """

    gemm_forward: float
    gemm_input: float
    gemm_weight: float
    core: float
    unfused: float
    memory: float
    network: float
    kernel: float
    latency: float
    tensor_exposed: float
    data_exposed: float
    fp8: float = 0.85
    mxfp8: float = 0.8
    nvfp4: float = 0.6

    def __post_init__(self) -> None:
        for field in fields(self):
            value = require_number(getattr(self, field.name), field.name)
            is_share = field.name not in ("kernel", "latency")
            is_divisor = is_share and not field.name.endswith("_exposed")
            if value < 0 or (is_divisor and not value) or (is_share and value > 1):
                allowed = "above 0 and at most 1" if is_divisor else "between 0 and 1" if is_share else "at least 0"
                raise ConfigError(f"must be {allowed}, not {value}", field.name)


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """A GPU: peak `tflops` of dense 16-bit products, `memory` in GB, `bandwidth` of it in GB/s, links in GB/s.

    Without `nvlink` PCIe serves. `efficiency` says which shares training reaches; `fitted_on` names the GPU whose runs
    they were fitted on. Raises ConfigError, about the field at fault.
    """

    name: str
    tflops: float = declare(Number(above=True), "peak of dense 16-bit products, in TFLOP/s")
    memory: float = declare(Number(MEMORY, above=True), "in GB")
    bandwidth: float = declare(Number(above=True), "of its memory, in GB/s")
    pcie: float = declare(Number(above=True), "to the host, in GB/s a direction")
    nic: float = declare(Number(above=True), "a network card, of a GPU or of gpus_per_nic, in GB/s a direction")
    efficiency: Efficiency
    fitted_on: str = ""
    nvlink: float | None = declare(Number(above=True), "to others of its node, in GB/s a direction; absent: none", None)
    gpus_per_node: int = declare(Count(), "GPUs of a node; default 8", 8)
    nvlink_gpus: int | None = declare(Count(), "GPUs that NVLink joins from node to node", None)
    gpus_per_nic: int = declare(Count(), "GPUs that share a network card; default 1", 1)
    fp8: float | None = declare(Number(above=True), "peak of dense products in 8 bits, in TFLOP/s; absent: none", None)
    mxfp8: float | None = declare(Number(above=True), "the same, with a scale for each 32 numbers", None)
    nvfp4: float | None = declare(Number(above=True), "the same of products in 4 bits", None)

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for name in NUMBERS:
            value = getattr(self, name)
            if value is not None and name in COUNTS:
                require_whole(value, name, least=1)
            elif value is not None and not 0 < require_number(value, name) <= MOST:
                raise ConfigError(f"must be more than 0 and at most {MOST:,.0f}, not {value}", name)

    @property
    def inside(self) -> float:
        """The link of a GPU to others of its node, in GB/s a direction."""
        return self.pcie if self.nvlink is None else self.nvlink

    @property
    def outside(self) -> float:
        """What a GPU has of the network, in GB/s a direction, where all GPUs of its card send at once."""
        return self.nic / self.gpus_per_nic


OTHERS = ("name", "efficiency", "fitted_on")  # fields that are no numbers of a data sheet
NUMBERS = declared(GpuModel, "hardware")
COUNTS = tuple(name for name, field in NUMBERS.items() if isinstance(field.shape, Count))
GEMM = {"forward": "gemm_forward", "backward_input": "gemm_input", "backward_weight": "gemm_weight"}
EFFICIENCIES = ("gemm", *(field.name for field in fields(Efficiency)))
_GEMM = Either(Number(), ByKey(dict.fromkeys(GEMM, Number())))
EFFICIENCY = ByKey({key: _GEMM if key == "gemm" else Number() for key in EFFICIENCIES})

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
        return self.master + self.copies_on(hardware) * self.each


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
