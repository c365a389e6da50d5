"""A profile as a config, and as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipesched.runtime.profiling import TIMES, Profile, Spread

MEGABYTE = 10**6


def config_text(profile: Profile, *, split_backward: bool = True) -> str:
    """Return the config of what was measured: medians, with the middle half of the rounds as a comment.

    Of the backward it gives both halves, or the whole as it was measured; the other way stands there as a comment. I
    and W one after the other take longer than B, because what both need is done twice.
    """
    stages = profile.stages
    rows = {key: [stage.times[key] for stage in stages] for key in TIMES}
    halves, whole = ("", "# ") if split_backward else ("# ", "")
    return f"""\
# Measured by pipesched profile: {profile.title}
# Times are medians of {profile.repeats} rounds, and the quartiles stand behind them.
# Stage 0 gives no gradient of its input, so its whole backward is done at W.
devices: {profile.devices}
stages: {len(stages)}
microbatches: {profile.microbatches}
time_unit: ms

costs:
{_row("forward", rows["forward"])}
  # the backward is given by its halves, for schedules that split it, or whole; I and W take longer than B:
{_row(halves + "backward_input", rows["backward_input"])}
{_row(halves + "backward_weight", rows["backward_weight"])}
{_row(whole + "backward", rows["backward"])}
{_row("recompute", rows["recompute"])}
{_row("offload", rows["offload"])}
{_row("reload", rows["reload"])}
{_row("p2p", profile.p2p)}

memory:
  unit: MB
  activation: {_numbers([stage.activation / MEGABYTE for stage in stages])}
  # of an activation, what stays from the end of I to the end of W, gradients caught at the weights included:
  retain: {_numbers([stage.retain for stage in stages])}
  # of an activation that is recomputed, its input:
  checkpoint: {_numbers([min(stage.checkpoint, 1.0) for stage in stages])}
  # weights and their gradients, without the state of an optimizer:
  static: {_numbers([stage.static / MEGABYTE for stage in stages])}
"""


def _row(key: str, spreads: Sequence[Spread]) -> str:
    low, high = ([f"{value:.3g}" for value in column] for column in ([s.q1 for s in spreads], [s.q3 for s in spreads]))
    between = ", ".join(f"{one}..{other}" for one, other in zip(low, high, strict=True))
    medians = ", ".join(_time(spread.median) for spread in spreads)
    return f"  {key}: [{medians}]" + (f"  # {between}" if between else "")


def _numbers(values: Sequence[float]) -> str:
    return f"[{', '.join(_number(value) for value in values)}]"


def _time(value: float) -> str:
    """Return a time with four digits that tell."""
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def _number(value: float) -> str:
    """Return a number to a millionth: a size in MB to a byte."""
    text = f"{value:.6f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return the document of a profile: times in ms, sizes in bytes."""
    return {
        "format": "pipesched.profile",
        "version": 1,
        "title": profile.title,
        "devices": profile.devices,
        "microbatches": profile.microbatches,
        "repeats": profile.repeats,
        "time_unit": "ms",
        "stages": [
            {
                **{key: stage.times[key]._asdict() for key in TIMES},
                "activation": stage.activation,
                "retain": stage.retain,
                "checkpoint": stage.checkpoint,
                "static": stage.static,
            }
            for stage in profile.stages
        ],
        "p2p": [spread._asdict() for spread in profile.p2p],
    }
