"""An activation: what autograd saved for one microbatch of one stage, in storages that can leave the device.

A forward runs in a `Saving`, whose `finish` returns the `Activation`; `Transfers` moves that to the host and back.
`torch.autograd.graph.saved_tensors_hooks` hand each saved tensor to `Saving.pack`, which returns a `SavedTensor` (a
view) of a `HeldStorage` (a box) with the tensor's storage. Autograd then holds the views, these the boxes, and the
activation only looks on. So what autograd frees is free, and a box can be emptied and filled without autograd knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any
from weakref import ref

import torch

from pipesched.runtime.torch_internals import version_of

GONE = "what autograd saved is not on the device: the plan does not bring it back in time"


class HeldStorage:
    """A storage that autograd needs: on the device (`storage`), or in a buffer of the host."""

    __slots__ = ("__weakref__", "device", "host", "nbytes", "storage")

    def __init__(self, storage: Any, device: Any) -> None:
        self.storage, self.device, self.nbytes = storage, device, storage.nbytes()
        self.host: Any = None


class SavedTensor:
    """A saved tensor: where it lies in which box."""

    __slots__ = ("__weakref__", "box", "changed", "dtype", "offset", "size", "stride")

    def __init__(self, box: HeldStorage, tensor: Any) -> None:
        self.box, self.dtype, self.changed = box, tensor.dtype, False
        self.size, self.stride, self.offset = tensor.size(), tensor.stride(), tensor.storage_offset()

    def tensor(self) -> Any:
        """Return the saved tensor. Raises RuntimeError where it was changed in place, or is not on the device."""
        if self.changed:
            raise RuntimeError("a tensor that the backward needs was changed in place after it was saved")
        if self.box.storage is None:
            raise RuntimeError(GONE)
        empty = torch.empty(0, dtype=self.dtype, device=self.box.device)
        return empty.set_(self.box.storage, self.offset, self.size, self.stride)


def unpack(saved: Any) -> Any:
    """Return the tensor that `Saving.pack` was given."""
    return saved.tensor() if isinstance(saved, SavedTensor) else saved


class Saving:
    """The hooks of one forward. Tensors whose storage has its address in `outside` stay with autograd as they are.

    Outside are the weights and buffers of the stage and what the caller of a step owns, because to drop them would free
    nothing.
    """

    def __init__(self, device: Any, outside: Iterable[Mapping[int, Any] | set[int]]) -> None:
        self._device, self._outside = device, outside
        self._boxes: dict[int, HeldStorage] = {}
        self._views: list[tuple[SavedTensor, Any, int]] = []

    def pack(self, tensor: Any) -> Any:
        """Return what autograd shall keep for a tensor."""
        if type(tensor) is not torch.Tensor or tensor.device != self._device or tensor.layout is not torch.strided:
            return tensor
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not address or any(address in owned for owned in self._outside):
            return tensor
        box = self._boxes.get(address)
        if box is None:
            box = self._boxes[address] = HeldStorage(storage, self._device)
        view = SavedTensor(box, tensor)
        self._views.append((view, tensor, version_of(tensor)))
        return view

    def finish(self) -> Activation:
        """Return the activation, when the forward has run; tensors changed since they were saved are marked."""
        for view, tensor, version in self._views:
            view.changed = version_of(tensor) != version
        activation = Activation([ref(box) for box in self._boxes.values()], [ref(view) for view, _, _ in self._views])
        self._boxes.clear()
        self._views.clear()
        return activation


class Activation:
    """The boxes of one forward that are still needed."""

    def __init__(self, boxes: list[ref[HeldStorage]], views: list[ref[SavedTensor]]) -> None:
        self._boxes, self._views = boxes, views

    def boxes(self) -> list[HeldStorage]:
        return [box for one in self._boxes if (box := one()) is not None]

    @property
    def live_bytes(self) -> int:
        return sum(box.nbytes for box in self.boxes() if box.storage is not None)

    def keep_only(self, needed: set[int], seen: set[int]) -> None:
        """Empty every box that no view in `needed` (ids) looks at; views that are not in `seen` count as needed too."""
        views = [view for one in self._views if (view := one()) is not None]
        kept = {id(view.box) for view in views if id(view) in needed or id(view) not in seen}
        for box in self.boxes():
            if id(box) not in kept:
                box.storage = None


Host = Callable[[int], Any]


class Transfers:
    """Copies on a CPU. `host` makes a buffer of so many bytes (uint8)."""

    def __init__(self, host: Host | None) -> None:
        self._host = host or partial(torch.empty, dtype=torch.uint8)

    def offload(self, activation: Activation) -> int:
        """Move an activation to the host, and return the bytes that left the device."""
        moved = 0
        for box in activation.boxes():
            if box.storage is not None:
                buffer = self._host(box.nbytes)
                if buffer.dtype != torch.uint8 or buffer.numel() < box.nbytes:
                    found = f"{buffer.numel()} {buffer.dtype}"
                    raise ValueError(f"`host` must return at least {box.nbytes} bytes of uint8, not {found}")
                box.host = buffer.view(-1)[: box.nbytes]
                here = torch.empty(0, dtype=torch.uint8, device=box.device)
                here = here.set_(box.storage, 0, (box.nbytes,), (1,))  # what is in the box
                box.host.copy_(here, non_blocking=True)  # which a copy between CPUs does not heed
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
        took: float = (second - first) * 1000
        return took
