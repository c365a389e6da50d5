"""Columns of integers, and the kernels that loop over them (`run_kernel`): compiled where a C compiler was.

A column is a numpy array of int64. Where a value or a sum is beyond 64 bits, it holds Python integers (dtype object).
Plain kernels compute with those, so answers are exact either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[Any]  # of int64, or of Python integers
else:
    Ints = Any

    class _Numpy:
        """numpy, imported with its first use: help and refusals do without."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            found = vars(self)[name] = getattr(numpy, name)
            return found

    np = _Numpy()

HOW_TO = "install a C compiler, and pipesched again"
SLOW = 5.0  # seconds of a command, after which a note says how to get compiled kernels
LARGEST = 2**62  # sums of two times below it stay within 64 bits


@cache
def _found() -> tuple[ModuleType | None, ModuleType | None, ModuleType | None, str]:
    """Return the compiled kernels, of list scheduling and of bins too, if they are of today's sources; and a word."""
    try:
        from pipesched.core import _bin_kernels, _kernels, _list_kernels  # type: ignore[attr-defined]
    except ImportError:
        return None, None, None, "plain Python"
    for compiled in (_kernels, _list_kernels, _bin_kernels):  # an edited source: the compiled file would win over it
        source = Path(__file__).with_name(f"{compiled.__name__.rpartition('._')[2]}.py").read_bytes()
        if crc32(source) != compiled.SOURCE:
            return None, None, None, "plain Python, because the compiled ones are stale"
    return _kernels, _list_kernels, _bin_kernels, "compiled"


def compiled_kernels() -> ModuleType | None:
    """Return the compiled kernels; None where plain Python runs."""
    return _found()[0]


def form_of_kernels() -> str:
    """Return which form runs, for people: `compiled`, or `plain Python` and why."""
    return _found()[3]


def column(values: Iterable[int] | Ints) -> Ints:
    """Return integers as an array, one that is given as it is."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step, dtype=np.int64)
    listed = values if isinstance(values, (list, tuple)) else [*values]
    try:
        return np.array(listed, dtype=np.int64)
    except OverflowError:
        return np.array(listed, dtype=object)


def in_range(values: Ints, total: int) -> Ints:
    """Return a column as Python integers where what is added up of it, at most `total`, is beyond 64 bits."""
    return values.astype(object) if total >= LARGEST and values.dtype != object else values


def once(table: Ints) -> Ints:
    """Return a table without the rows and columns that it sees several times (stride 0)."""
    return table[tuple(slice(None if step else 1) for step in table.strides)]


def total(values: Ints) -> int:
    """Return the exact sum of a column, or a table, of integers from 0 on."""
    own = once(values).ravel()
    fits = own.dtype != object and int(own.max(initial=0)) * len(own) < LARGEST
    return (int(own.sum()) if fits else sum(own.tolist())) * (values.size // max(len(own), 1))


def kernels_for(*columns: Ints) -> tuple[Any, Any, Callable[[Ints], Any]]:
    """Return the kernels, and those of list scheduling, as they suit some columns, and what gives them one."""
    compiled, of_lists, *_ = _found()
    if compiled is None or any(values.dtype == object for values in columns):
        from pipesched.core import kernels, list_kernels

        return kernels, list_kernels, np.ndarray.tolist
    # an int may have 32 bits
    return compiled, of_lists, lambda one: np.ascontiguousarray(one, None if one.dtype.kind == "f" else np.int64)


@cache
def kernels_of_bins() -> tuple[Any, Callable[[Ints], Any]]:
    """Return the kernels of bins in the form that runs, and what gives them a column."""
    from pipesched.core import bin_kernels

    return _found()[2] or bin_kernels, kernels_for()[2]


def run_kernel(name: str, *columns: Any, written: int = 0) -> tuple[Any, list[Any]]:
    """Run a kernel on columns and numbers; return its answer, and the last ones, as many as are `written`.

    What it writes may be the column itself, or a copy.
    """
    run, of_lists, give = kernels_for(*(one for one in columns if isinstance(one, np.ndarray)))
    given = [give(one) if isinstance(one, np.ndarray) else one for one in columns]
    answer = getattr(run if hasattr(run, name) else of_lists, name)(*given)
    return answer, [one if isinstance(one, int) else column(one) for one in given[len(given) - written :]]


def lists(values: Ints | Sequence[int]) -> list[int]:
    """Return a column of either form as a list of Python integers."""
    return values.tolist() if isinstance(values, np.ndarray) else [*values]


def ceil_div(amount: int, parts: int) -> int:
    """Return amount / parts, rounded up to a whole number."""
    return -(-amount // parts)


def round_up(amount: int, quantum: int) -> int:
    """Return the least multiple of `quantum` that is no less than `amount`."""
    return -(-amount // quantum) * quantum
