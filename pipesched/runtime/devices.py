"""The device of a rank: a core, or a GPU, which nobody has tried yet."""

from __future__ import annotations

import warnings
from socket import gethostname
from typing import Any

import torch

from pipesched.errors import PipeschedWarning
from pipesched.runtime.activation import Host
from pipesched.runtime.transfers import Transfers

CPU, CUDA = "cpu", "cuda"
UNTRIED = "the path for GPUs is untried: `pipesched train --self-test` checks it on yours"


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


def device_of(module: Any) -> Any:
    """Return the device of a module; of one without tensors, what this process uses."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device(CUDA, torch.cuda.current_device()) if torch.cuda.is_available() else torch.device(CPU)


def name_of_gpu(device: Any) -> str | None:
    """Return what tells a GPU from all others, of other machines too; None for a CPU."""
    return f"{gethostname()} {torch.cuda.get_device_properties(device).uuid}" if device.type == CUDA else None


def warn_untried(device: Any, level: int = 3) -> None:
    """Give the warning that the path for GPUs is untried, if this device is one, about the caller so many frames up."""
    if device.type == CUDA:
        warnings.warn(UNTRIED, PipeschedWarning, stacklevel=level)


def transfers_for(device: Any, host: Host | None) -> Transfers:
    """Return the transfers of a device."""
    if device.type == CUDA:
        from pipesched.runtime.cuda import CudaTransfers

        return CudaTransfers(host)
    return Transfers(host)
