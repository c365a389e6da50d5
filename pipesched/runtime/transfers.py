"""Offload and load: the storages of an activation to buffers of the host, and back.

On a CPU a copy is done when it returns. On a GPU it runs on a stream of its own while the device computes.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import torch

from pipesched.runtime.activation import Activation, HeldStorage, Host


class Transfers:
    """Copies on a CPU. `host` makes a buffer of so many bytes (uint8)."""

    def __init__(self, host: Host | None) -> None:
        self._host = host or partial(torch.empty, dtype=torch.uint8)

    def offload(self, activation: Activation) -> int:
        """Move an activation to the host, and return the bytes that left the device."""
        moved = 0
        for box in activation.boxes():
            if box.storage is not None:
                box.host = buffer_for(self._host, box)
                box.host.copy_(bytes_of(box))
                box.storage = None
                moved += box.nbytes
        return moved

    def load(self, activation: Activation) -> int:
        """Bring an activation back into new storages, and return their bytes."""
        moved = 0
        for box in activation.boxes():
            if box.host is not None:
                back = torch.empty(box.nbytes, dtype=torch.uint8, device=box.device)
                back.copy_(box.host)
                box.storage, box.host = back.untyped_storage(), None
                moved += box.nbytes
        return moved

    def before_operation(self, offloads: int) -> None:
        """Let what comes wait for so many offloads of this step, and drop what these read; on a CPU that is done."""

    def before_backward(self, activation: Activation | None) -> None:
        """Let the computation wait for the load of an activation; on a CPU it is there."""

    def finish(self) -> None:
        """Wait for all that is under way, at the end of a step."""

    def mark(self, kind: str) -> Any:
        """Return a mark of the time at which the device comes here in what runs operations of this kind."""
        return perf_counter()

    def milliseconds(self, first: Any, second: Any) -> float:
        """Return the time between two marks."""
        took: float = (second - first) * 1000
        return took


def buffer_for(host: Host, box: HeldStorage) -> Any:
    """Return a buffer of the host for a box. Raises ValueError for one of another size or type."""
    buffer = host(box.nbytes)
    if buffer.dtype != torch.uint8 or buffer.numel() < box.nbytes:
        raise ValueError(
            f"`host` must return at least {box.nbytes} bytes of uint8, not {buffer.numel()} {buffer.dtype}"
        )
    return buffer.view(-1)[: box.nbytes]


def bytes_of(box: HeldStorage) -> Any:
    """Return what is in a box on the device, as uint8."""
    return torch.empty(0, dtype=torch.uint8, device=box.device).set_(box.storage, 0, (box.nbytes,), (1,))
