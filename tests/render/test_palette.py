"""Colours as a printer without any shows them: how light they are."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from pipesched.render.palette import HUES, colour_of, lightness, place_of, stripe_of

STEP = 1.6  # of lightness, between kinds side by side
DARK_TO_LIGHT = "IFW"
CHUNKS = [(chunk, chunks) for chunks in (1, 2, 3, 4, 6) for chunk in range(chunks)]


def test_lightness_is_that_of_contrast() -> None:
    """Of white over black it is 21, of mid grey over black 5.3, as WCAG says."""
    assert lightness((255, 255, 255)) / lightness((0, 0, 0)) == pytest.approx(21)
    assert lightness((128, 128, 128)) / lightness((0, 0, 0)) == pytest.approx(5.318, abs=0.001)


@pytest.mark.parametrize("hues", [[None], range(len(HUES))], ids=["by kind", "by microbatch"])
@pytest.mark.parametrize(("chunk", "chunks"), CHUNKS)
def test_kinds_differ_in_grey(hues: list[int | None], chunk: int, chunks: int) -> None:
    """Input gradients, forwards and weight gradients of any microbatches get lighter by a step, in every chunk."""
    for dark, light in pairwise(DARK_TO_LIGHT):
        for one, other in product(hues, repeat=2):
            step = lightness(colour_of(other, light, chunk, chunks)) / lightness(colour_of(one, dark, chunk, chunks))
            assert step >= STEP, (one, dark, other, light)
    for hue in hues:
        forward, whole = (lightness(colour_of(hue, kind, chunk, chunks)) for kind in "FB")
        assert max(forward, whole) / min(forward, whole) >= STEP


@pytest.mark.parametrize("slices", [2, 4])
@pytest.mark.parametrize(("chunk", "chunks"), CHUNKS[:3])
def test_slices_keep_the_steps(slices: int, chunk: int, chunks: int) -> None:
    """No slice of one kind is as light as one of another kind."""
    places = [place_of(part, slices) for part in range(slices)]
    for dark, light in pairwise(DARK_TO_LIGHT):
        for hue, one, other in product(range(len(HUES)), places, places):
            darker, lighter = colour_of(hue, dark, chunk, chunks, one), colour_of(hue, light, chunk, chunks, other)
            assert lightness(lighter) / lightness(darker) >= STEP


@pytest.mark.parametrize("kind", "WR")
def test_stripes_are_seen(kind: str) -> None:
    """Stripes are darker by a step than what they are on, in both chunks, and that is darker than idle time."""
    for hue, chunk in product(range(len(HUES)), (0, 1)):
        colour = colour_of(hue, kind, chunk, 2)
        assert lightness(colour) / lightness(stripe_of(colour)) >= STEP
        assert lightness((240, 240, 240)) / lightness(colour) > 1.1
