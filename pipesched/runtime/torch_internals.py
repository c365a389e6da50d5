"""What the runtime uses of PyTorch's undocumented names. PyTorch 2.13 to 2.15 have all of them.

They are looked up when this module loads, so a version that lacks one is refused with its name before anything runs.
Only those of NCCL are not, which builds for CPUs do not have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pkgutil import resolve_name
from typing import Any

import torch

from pipesched.errors import ConfigError


def _name(path: str) -> Any:
    """Return what `module:name` is in this PyTorch. Raises ConfigError where it is missing."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError):
        what = f"PyTorch {torch.__version__} has no {path.replace(':', '.')}, which training needs"
        raise ConfigError(f"{what}; pip install 'pipesched[torch]' takes a version that has it") from None


stage_backward = _name("torch.distributed.pipelining._backward:stage_backward")
stage_backward_input = _name("torch.distributed.pipelining._backward:stage_backward_input")
stage_backward_weight = _name("torch.distributed.pipelining._backward:stage_backward_weight")
gloo_group: Callable[[Any, int, int, timedelta], Any] = _name("torch.distributed:ProcessGroupGloo")
store_of: Callable[[Any], Any] = _name("torch.distributed:ProcessGroup.get_group_store")

_OFF = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
)  # fmt: skip
_RAW = "_raw_saved_"  # of a node of the graph: its attributes with what it saved
_RAW_NAMES: dict[Any, tuple[str, ...]] = {}  # by the class of the node
for _path in ("Tensor._version", "_C._autograd.SavedTensor.data", f"_C._functions.MulBackward0.{_RAW}self"):
    _name(f"torch:{_path}")


def nccl_group(store: Any, rank: int, device: Any, patience: timedelta) -> Any:
    """Return a group of two ranks by NCCL, which PyTorch for CPUs does not have.

    What fails in it is for the runtime to find out: its watchdog would end the process, its monitor print stacks.
    """
    before = {key: os.environ.get(key) for key in _OFF}
    os.environ.update(dict.fromkeys(_OFF, "0"))
    try:
        group = _name("torch.distributed:ProcessGroupNCCL")(store, rank, 2, patience)
        group.eager_connect_single_device(device)
        return group
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def version_of(tensor: Any) -> int:
    """Return how often a tensor was changed in place."""
    count: int = tensor._version
    return count


def packed_by(node: Any) -> Iterator[Any]:
    """Yield what hooks packed of the tensors that a node of the graph saved."""
    kind = type(node)
    if kind not in _RAW_NAMES:
        _RAW_NAMES[kind] = tuple(name for name in dir(kind) if name.startswith(_RAW))
    for name in _RAW_NAMES[kind]:
        saved = getattr(node, name)
        for one in saved if isinstance(saved, (tuple, list)) else (saved,):
            yield getattr(one, "data", None)
