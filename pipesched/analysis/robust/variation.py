"""How durations vary: the settings of a robustness, checked, and the random factors that are drawn by them.

Factors are lognormal, of mean 1, and the same for the same operation wherever it stands. The normal numbers of an
operation come from a generator of its own, whose state is a hash of the seed, the operation's text and the number of
the block of samples. So they depend on nothing else: not on the schedule, nor on what stands beside it, nor on how many
samples there are beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from math import log1p, sqrt
from typing import TYPE_CHECKING, Any

from pipesched.checks import require_whole, shown
from pipesched.core.arrays import np
from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain, to_fraction

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1024  # samples of one stream; another number would be other draws
MOST_NOISE = 10  # a coefficient of variation
MOST_STRAGGLER = 1_000_000
MOST_SAMPLES = 1_000_000
MOST_SEED = 10**9


@dataclass(frozen=True)
class Variation:
    """How durations vary.

    `noise` is the coefficient of variation of each operation's factor, `device_noise` that of each device's,
    `straggler` the factor of a slow device, `samples` the number of steps that are drawn, `seed` that of the draws.
    Raises ConfigError, about the field at fault, for what is no such number.
    """

    noise: int | float = 0.05
    device_noise: int | float = 0
    straggler: int | float = 1.2
    samples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for key in ("noise", "device_noise"):
            object.__setattr__(self, key, _plain(getattr(self, key), key, MOST_NOISE))
        object.__setattr__(self, "straggler", _plain(self.straggler, "straggler", MOST_STRAGGLER, above=True))
        object.__setattr__(self, "samples", require_whole(_scalar(self.samples), "samples", 2, MOST_SAMPLES))
        object.__setattr__(self, "seed", require_whole(_scalar(self.seed), "seed", 0, MOST_SEED))

    @property
    def slowness(self) -> Fraction:
        """The factor of a slow device, exactly: 1.2 is 6/5."""
        return to_fraction(self.straggler)


def _plain(value: Any, key: str, most: int, *, above: bool = False) -> int | float:
    """Return a number from 0 (or, if `above`, more) to `most`. Raises ConfigError."""
    try:
        number = to_fraction(value)
    except ValueError:
        number = Fraction(-1)
    if not 0 <= number <= most or (above and not number):
        allowed = "more than 0" if above else "at least 0"
        raise ConfigError(f"must be a number of {allowed} (at most {most:,}), not {shown(value)}", key)
    return plain(number)


def _scalar(value: Any) -> Any:
    """Return the number in an array without dimensions, and a whole decimal as an int; all else as it is."""
    try:
        number = to_fraction(value)
    except ValueError:
        return value
    return number.numerator if number.denominator == 1 and not isinstance(value, (str, bool)) else value


def block_sizes(samples: int) -> list[int]:
    """Return how many samples each block holds: full blocks, and what is left."""
    return [min(BLOCK, samples - first) for first in range(0, samples, BLOCK)]


class Factors:
    """Draws the factors of a block of samples, of which the first `width` are used."""

    def __init__(self, seed: int, block: int, width: int) -> None:
        self.prefix, self.width = f"{seed} {block} ".encode(), width
        self._bits = np.random.SFC64(0)
        self._normal = np.random.Generator(self._bits).standard_normal
        self._state: Any = dict(self._bits.state)

    def fill(self, rows: NDArray[np.float64], texts: Sequence[str], variation: float) -> None:
        """Put a factor for each text and sample into `rows`; `variation` is their standard deviation."""
        if not variation:
            rows[:] = 1
            return
        hashes = [blake2b(self.prefix + text.encode(), digest_size=24).digest() for text in texts]
        words = np.ones((len(rows), 4), dtype=np.uint64)  # three are hashed; the last one counts from 1
        words[:, :3] = np.frombuffer(b"".join(hashes), np.dtype("<u8")).reshape(-1, 3)
        for own, row in zip(words, rows, strict=True):
            self._state["state"] = {"state": own}
            self._bits.state = self._state
            self._normal(out=row)
        sigma = sqrt(log1p(variation**2))
        rows *= sigma
        rows -= sigma**2 / 2
        np.exp(rows, out=rows)
