"""The device of a rank: a core, or a GPU; ranks may share them."""

from __future__ import annotations

from socket import gethostname
from typing import Any

import torch

from pipesched.errors import ConfigError
from pipesched.executors import cores
from pipesched.runtime.activation import Host, Transfers

CPU, CUDA = "cpu", "cuda"


def kind_of_device() -> str:
    """Return what this machine trains on: CUDA where it is, else CPUs."""
    return CUDA if torch.cuda.is_available() else CPU


def take_device(rank: int, kind: str) -> Any:
    """Return the device that this process, a rank of its machine, uses from here on; ranks may share a GPU."""
    if kind == CPU:
        torch.set_num_threads(1)  # as torchrun starts the ranks
        return torch.device(CPU)
    device = torch.device(CUDA, rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def backend_of(kind: str, ranks: int) -> str:
    """Return by what so many ranks of a machine talk: NCCL where this process sees a GPU for each, else gloo."""
    return "nccl" if kind == CUDA and ranks <= torch.cuda.device_count() else "gloo"


def sharing(kind: str, ranks: int) -> str | None:
    """Return a sentence where so many ranks of this machine share its cores or GPUs."""
    if kind == CPU:
        few, what, then = cores(), "core", "each operation takes longer than on a core of its own"
    else:
        few, what = torch.cuda.device_count(), "GPU"
        then = "they take turns, and their messages go through the memory of the host"
    return f"{ranks} ranks share {few} {what}{'s' * (few > 1)}: {then}" if ranks > few else None


def device_of(module: Any) -> Any:
    """Return the device of a module; of one without tensors, what this process uses."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device(CUDA, torch.cuda.current_device()) if torch.cuda.is_available() else torch.device(CPU)


def require_current(device: Any) -> None:
    """Raise ConfigError for a GPU that is not the current one of this process, on whose streams all runs."""
    if device.type == CUDA and device.index not in (None, torch.cuda.current_device()):
        current = torch.cuda.current_device()
        what = f"stand on {device}; the current GPU of this process is {current}: torch.cuda.set_device({device.index})"
        raise ConfigError(what, "modules")


def name_of_gpu(device: Any) -> str | None:
    """Return what tells a GPU from all others, of other machines too; None for a CPU."""
    return f"{gethostname()} {torch.cuda.get_device_properties(device).uuid}" if device.type == CUDA else None


def transfers_for(device: Any, host: Host | None) -> Transfers:
    """Return the transfers of a device."""
    if device.type == CUDA:
        from pipesched.runtime.cuda import CudaTransfers

        return CudaTransfers(host)
    return Transfers(host)
