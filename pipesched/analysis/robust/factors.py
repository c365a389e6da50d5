"""Random factors of durations: lognormal, of mean 1, the same for the same operation wherever it stands.

The normal numbers of an operation come from a generator of its own, whose state is a hash of the seed, the operation's
text and the number of the block of samples. So they depend on nothing else: not on the schedule, nor on what stands
beside it, nor on how many samples there are beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log1p, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 1024  # samples of one stream; another number would be other draws


def block_sizes(samples: int) -> list[int]:
    """Return how many samples each block holds: full blocks, and what is left."""
    return [min(BLOCK, samples - first) for first in range(0, samples, BLOCK)]


class Factors:
    """Draws the factors of a block of samples, of which the first `width` are used."""

    def __init__(self, seed: int, block: int, width: int) -> None:
        import numpy as np

        self.prefix, self.width = f"{seed} {block} ".encode(), width
        self._bits = np.random.SFC64(0)
        self._normal = np.random.Generator(self._bits).standard_normal
        self._state: Any = dict(self._bits.state)
        self._words = np.ones(4, dtype=np.uint64)  # three are hashed; the last one counts from 1
        self._state["state"] = {"state": self._words}
        self._read, self._kind = np.frombuffer, np.dtype("<u8")

    def fill(self, rows: NDArray[np.float64], texts: Sequence[str], variation: float) -> None:
        """Put a factor for each text and sample into `rows`; `variation` is their standard deviation."""
        import numpy as np

        if not variation:
            rows[:] = 1
            return
        for text, row in zip(texts, rows, strict=True):
            self._words[:3] = self._read(blake2b(self.prefix + text.encode(), digest_size=24).digest(), self._kind)
            self._bits.state = self._state
            self._normal(out=row)
        sigma = sqrt(log1p(variation**2))
        rows *= sigma
        rows -= sigma**2 / 2
        np.exp(rows, out=rows)
