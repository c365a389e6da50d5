"""How durations vary: the settings of a robustness, checked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pipesched.checks import require_whole, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain, to_fraction

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
