"""A GPU as its numbers: peak rate, memory, links; and the shares of them that training reaches."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pipesched.checks import require_label, require_number, require_whole
from pipesched.errors import ConfigError

MOST = 1e9


@dataclass(frozen=True)
class Efficiency:
    """Which shares of a GPU's numbers training reaches, fitted on published runs or measured.

    `gemm_forward`, `gemm_input` and `gemm_weight` are shares of the peak rate that large matrix products of a forward,
    of an input gradient and of a weight gradient reach; `core` is that of attention between queries, keys and values
    where it is fused, `unfused` where it is not. `memory` is a share of the memory's bandwidth, for elementwise work.
    `network` is a share of a link's, for collectives. `kernel` are microseconds of a kernel beside its work, `latency`
    milliseconds that messages between stages hold a GPU up, with each forward and each backward of a stage.
    `tensor_exposed` and `data_exposed` are the parts of tensor-parallel communication (where it overlaps with products)
    and of data-parallel communication that nothing hides. Raises ConfigError, about the field at fault.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = require_number(getattr(self, field.name), field.name)
            is_share = field.name not in ("kernel", "latency")
            is_divisor = is_share and not field.name.endswith("_exposed")
            if value < 0 or (is_divisor and not value) or (is_share and value > 1):
                allowed = "above 0 and at most 1" if is_divisor else "between 0 and 1" if is_share else "at least 0"
                raise ConfigError(f"must be {allowed}, not {value}", field.name)


@dataclass(frozen=True)
class GpuModel:
    """A GPU: peak `tflops` of dense 16-bit products, `memory` in GB, `bandwidth` of it in GB/s, links in GB/s.

    `nvlink`, `pcie` and `nic` count one direction of a GPU: to others of its node (None: none, PCIe serves), to the
    host, and to other nodes. NVLink may join `nvlink_gpus` of several nodes. `efficiency` says which shares training
    reaches; `fitted_on` names the GPU whose runs they were fitted on. Raises ConfigError, about the field at fault.
    """

    name: str
    tflops: float
    memory: float
    bandwidth: float
    pcie: float
    nic: float
    efficiency: Efficiency
    fitted_on: str = ""
    nvlink: float | None = None
    gpus_per_node: int = 8
    nvlink_gpus: int | None = None

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for key in ("tflops", "memory", "bandwidth", "pcie", "nic", "nvlink"):
            value = getattr(self, key)
            if value is not None and not 0 < require_number(value, key) <= MOST:
                raise ConfigError(f"must be more than 0 and at most {MOST:,.0f}, not {value}", key)
        require_whole(self.gpus_per_node, "gpus_per_node", least=1)
        if self.nvlink_gpus is not None:
            require_whole(self.nvlink_gpus, "nvlink_gpus", least=1)

    @property
    def neighbours(self) -> int:
        """How many GPUs the links of a node join: those of a rack where NVLink goes from node to node."""
        return max(self.gpus_per_node, self.nvlink_gpus or 0)

    @property
    def inside(self) -> float:
        """The link of a GPU to others of its node, in GB/s a direction."""
        return self.pcie if self.nvlink is None else self.nvlink

    @property
    def has_relative(self) -> bool:
        """Whether its efficiency was fitted on runs of another GPU."""
        return self.fitted_on not in ("", self.name)
