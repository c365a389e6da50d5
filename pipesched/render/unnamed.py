"""What the labels of operations that a program gives no name stand for: `+7 = (a+b)*c`, below the legend of a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.segment import Segment

from pipesched.hls.graph import Operation
from pipesched.render.legend import Item
from pipesched.render.palette import DIM

LONGEST = 36  # letters of an expression, of which a longer one shows the beginning and the end
MOST = 12  # operations that are explained


def explained(operations: Sequence[Operation], width: int, ascii_only: bool) -> Iterator[Item]:
    """Yield an item for each of the first operations, none wider than `width`, and how many more there are."""
    gap = " ... " if ascii_only else " … "
    for operation in operations[:MOST]:
        label = f"{operation.name} = "
        text = shortened(operation.text, max(min(LONGEST, width - len(label)), len(gap)), gap)
        yield [Segment(label + text)]
    if len(operations) > MOST:
        yield [Segment(f"and {len(operations) - MOST} more without a name", DIM)]


def shortened(text: str, most: int, gap: str) -> str:
    """Return a text of at most `most` letters: in a longer one, as many begin alike, `gap` stands for the middle."""
    if len(text) <= most:
        return text
    end = (most - len(gap)) // 2
    return text[: most - len(gap) - end].rstrip() + gap + text[len(text) - end :].lstrip()
