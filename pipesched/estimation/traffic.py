"""What a GPU spends beside its products: bytes through its memory, and kernels. In milliseconds."""

from __future__ import annotations

from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import LAUNCHES, TRAFFIC, Term


def moved(setup: Setup, name: str, size: float, kind: str = TRAFFIC) -> Term:
    """Return the time of bytes that are read and written."""
    hardware, share = setup.hardware, setup.hardware.efficiency.memory
    return Term(
        name,
        size / (hardware.bandwidth * share) * 1e-6,
        f"{size / 1e6:.6g} MB / ({hardware.bandwidth:g} GB/s x {share:.3g})",
        kind,
    )


def kernels(setup: Setup, name: str, count: int) -> Term:
    """Return what so many kernels take beside their work."""
    each = setup.hardware.efficiency.kernel
    return Term(name, count * each * 1e-3, f"{count} x {each:g} us", LAUNCHES)
