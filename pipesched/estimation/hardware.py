"""A GPU as its numbers: peak rate, memory, links; and the shares of them that training reaches. How both are read.

A GPU is given by the name of a preset, or by a mapping of its numbers, which a preset may fill. Shares are written in a
preset, in a config, or in a profile of one's own, by the keys of `Efficiency`. `gemm` is short for the first three: a
number for all of them, or a mapping of forward, backward_input and backward_weight. What is left out stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from typing import Any

from pipesched.checks import require_label, require_number, require_whole
from pipesched.errors import ConfigError
from pipesched.estimation.model_reader import HARDWARE, preset, presets
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.units_of_measure import MEMORY, Unit, has_unit, read_number
from pipesched.text.sections import Entries
from pipesched.text.yaml_reader import Value

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
    host, and by its network card to other nodes. `gpus_per_nic` share a card, or each has one. NVLink may join
    `nvlink_gpus` of several nodes. `efficiency` says which shares training reaches; `fitted_on` names the GPU whose
    runs they were fitted on. Raises ConfigError, about the field at fault.
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
    gpus_per_nic: int = 1

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for key in ("tflops", "memory", "bandwidth", "pcie", "nic", "nvlink"):
            value = getattr(self, key)
            if value is not None and not 0 < require_number(value, key) <= MOST:
                raise ConfigError(f"must be more than 0 and at most {MOST:,.0f}, not {value}", key)
        for key in ("gpus_per_node", "gpus_per_nic"):
            require_whole(getattr(self, key), key, least=1)
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
    def outside(self) -> float:
        """What a GPU has of the network, in GB/s a direction, where all GPUs of its card send at once."""
        return self.nic / self.gpus_per_nic

    @property
    def has_relative(self) -> bool:
        """Whether its efficiency was fitted on runs of another GPU."""
        return self.fitted_on not in ("", self.name)


NEEDED = {
    "tflops": "the peak of dense 16-bit products, in TFLOP/s",
    "memory": "in GB",
    "bandwidth": "of its memory, in GB/s",
}
COUNTS = ("gpus_per_node", "nvlink_gpus", "gpus_per_nic")
USUAL = {"pcie": 32, "nic": 25}  # PCIe 4 x16, and a network of 200 Gbit/s a GPU
OTHERS = ("name", "efficiency", "fitted_on")  # fields that are no numbers of a data sheet
NUMBERS = tuple(field.name for field in fields(GpuModel) if field.name not in OTHERS)
KEYS = ("preset", *NUMBERS)
GEMM = {"forward": "gemm_forward", "backward_input": "gemm_input", "backward_weight": "gemm_weight"}
SHARES = ("gemm", *(field.name for field in fields(Efficiency)))
TYPICAL = Efficiency(  # of a GPU of which nothing is known
    gemm_forward=0.6, gemm_input=0.6, gemm_weight=0.65, core=0.35, unfused=0.3, memory=0.7, network=0.7,
    kernel=8, latency=0.1, tensor_exposed=0.4, data_exposed=0.3,
)  # fmt: skip
MAPPING = f"; or a mapping of {', '.join(NUMBERS)} (`preset` fills what it leaves out)"


def read_hardware(value: Value) -> GpuModel:
    """Return the GPU that the section `hardware` describes. Raises ConfigError about the key at fault."""
    if not isinstance(value.data, dict):
        return _preset(value.plain(), "hardware", MAPPING)
    entries = Entries(value, "hardware", KEYS)
    given = {key: _number(entries, key) for key in NUMBERS if key in entries}
    if "preset" in entries:
        base = _preset(entries.plain("preset"), "hardware.preset")
        known = {field: getattr(base, field) for field in (*NUMBERS, *OTHERS)}
        return _hardware({**known, **given})
    for key, what in NEEDED.items():
        entries.needed(key, f"{what}; or give a `preset`")
    return _hardware({"name": "GPU", "efficiency": TYPICAL, **USUAL, **given})


def preset_hardware(name: str) -> GpuModel:
    """Return the GPU of that name. Raises ConfigError for an unknown one."""
    return _preset(name, "hardware", MAPPING)


def hardware_rows() -> Iterator[dict[str, Any]]:
    """Yield an object for each GPU: its numbers, the shares of them that training reaches, and the sources."""
    for found in presets(HARDWARE):
        yield {**asdict(preset_hardware(found.name)), "source": found.sources}


def _preset(name: object, key: str, rest: str = "") -> GpuModel:
    found = preset(HARDWARE, name, key, rest)
    entries = found.value.data
    given = {key: entries[key].data for key in (*NUMBERS, "fitted_on") if key in entries}
    given = {key: float(value) if isinstance(value, Decimal) else value for key, value in given.items()}
    shares = read_efficiency(entries.get("efficiency", Value({}, 0)), f"{found.name}.efficiency")
    return _hardware({"name": found.name, "efficiency": shares, **given})


def _hardware(keys: dict[str, Any]) -> GpuModel:
    try:
        return GpuModel(**keys)
    except ConfigError as error:
        raise ConfigError(error.message, f"hardware.{error.key}") from None


def _number(entries: Entries, key: str) -> Any:
    """Return a number as it was given; memory may be `80GB`."""
    value = entries.number(key)
    if key == "memory" and has_unit(value):
        return plain(read_number(value, Unit(MEMORY, "GB"), entries.key(key)))
    return value if key in COUNTS else require_number(value, entries.key(key))


def read_efficiency(value: Value, prefix: str, below: Efficiency = TYPICAL) -> Efficiency:
    """Return shares as they are written at the dotted key `prefix`, those left out from `below`. Raises ConfigError."""
    entries = Entries(value, prefix, SHARES)
    gemm, numbers = entries.values.get("gemm"), dict[str, float]()
    if gemm is not None and isinstance(gemm.data, dict):
        parts = Entries(gemm, entries.key("gemm"), tuple(GEMM))
        numbers = {GEMM[part]: _share(parts, part) for part in parts.values}
    elif gemm is not None:
        numbers = dict.fromkeys(GEMM.values(), _share(entries, "gemm"))
    numbers |= {key: _share(entries, key) for key in SHARES if key != "gemm" and key in entries}
    try:
        return replace(below, **numbers)
    except ConfigError as error:
        raise ConfigError(error.message, _written(entries, str(error.key))) from None


def _share(entries: Entries, key: str) -> float:
    return require_number(entries.number(key), entries.key(key))


def _written(entries: Entries, field: str) -> str:
    """Return the dotted key by which a field was written."""
    parts: dict[str, Any] = {name: part for part, name in GEMM.items()}
    if field in entries or field not in parts:
        return entries.key(field)
    is_mapping = isinstance(entries.values["gemm"].data, dict)
    return entries.key(f"gemm.{parts[field]}") if is_mapping else entries.key("gemm")
