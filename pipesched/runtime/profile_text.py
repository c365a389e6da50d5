"""A profile as a config, and as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence, Set
from fractions import Fraction
from typing import Any

from pipesched.results.outcome import Quartiles
from pipesched.runtime.profiling import TIMES, Profile, StageProfile
from pipesched.text.writer import ConfigText, ConfigWriter

MEGABYTE = 10**6
PLACES = 6  # of times: a nanosecond
BACKWARD = "the backward is given by its halves, for schedules that split it, or whole; I and W take longer than B:"


def config_text(profile: Profile, *, split_backward: bool = True) -> ConfigText:
    """Return the config of what was measured: medians, with the middle half of the rounds as a comment.

    Of the backward it gives both halves, or the whole as it was measured; the other way stands there as a comment. I
    and W one after the other take longer than B, because what both need is done twice.
    """
    config, stages = ConfigWriter(), profile.stages
    config.remark(
        f"Measured by pipesched profile: {profile.title}",
        f"Times are medians of {profile.repeats} rounds, and the quartiles stand behind them.",
        "Stage 0 gives no gradient of its input, so its whole backward is done at W.",
    )
    config.put("devices", profile.devices)
    config.put("stages", len(stages))
    config.put("microbatches", profile.microbatches)
    config.put("time_unit", "ms")
    config.gap()
    with config.section("costs"):
        _write_costs(config, profile, off={"backward"} if split_backward else {"backward_input", "backward_weight"})
    config.gap()
    with config.section("memory"):
        _write_memory(config, stages)
    return config.text


def _write_costs(config: ConfigWriter, profile: Profile, off: Set[str]) -> None:
    rows = {**{key: [stage.times[key] for stage in profile.stages] for key in TIMES}, "p2p": profile.p2p}
    for key in ("forward", "backward_input", "backward_weight", "backward", "recompute", "offload", "reload", "p2p"):
        if key == "backward_input":
            config.remark(BACKWARD)
        medians = [round(spread.median, PLACES) for spread in rows[key]]
        config.numbers(key, medians, _quartiles(rows[key]), off=key in off, listed=True)


def _write_memory(config: ConfigWriter, stages: Sequence[StageProfile]) -> None:
    config.put("unit", "MB")
    config.numbers("activation", [Fraction(stage.activation, MEGABYTE) for stage in stages], listed=True)
    config.remark(
        "of an activation, what stays from the end of I to the end of W, gradients caught at the weights included:"
    )
    config.numbers("retain", [stage.retain for stage in stages], listed=True)
    config.remark("of an activation that is recomputed, its input:")
    config.numbers("checkpoint", [min(stage.checkpoint, 1.0) for stage in stages], listed=True)
    config.remark("weights and their gradients, without the state of an optimizer:")
    config.numbers("static", [Fraction(stage.static, MEGABYTE) for stage in stages], listed=True)


def _quartiles(spreads: Sequence[Quartiles]) -> str:
    return ", ".join(f"{spread.q1:.3g}..{spread.q3:.3g}" for spread in spreads)


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return the document of a profile: times in ms, sizes in bytes."""
    return {
        "format": "pipesched.profile",
        "version": 1,
        **{key: getattr(profile, key) for key in ("title", "devices", "microbatches", "repeats")},
        "time_unit": "ms",
        "stages": [
            {
                **{key: stage.times[key]._asdict() for key in TIMES},
                **{key: getattr(stage, key) for key in ("activation", "retain", "checkpoint", "static")},
            }
            for stage in profile.stages
        ],
        "p2p": [spread._asdict() for spread in profile.p2p],
    }
