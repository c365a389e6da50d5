"""Names find places near their marks, clear of everything else."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pipesched.render.figure.plots import Box, needs_line, place_names

INSIDE = Box(0, 0, 400, 300)
SIZE = (30, 7)


def test_a_name_alone_stands_above_to_the_right() -> None:
    """With all the room there is the first choice is taken, and no line is needed."""
    (box,) = place_names([(100, 100)], [SIZE], [], INSIDE)
    assert box == Box(105, 105, 135, 112)
    assert not needs_line(box, (100, 100))


def test_at_the_edge_it_turns_around() -> None:
    """In the upper right corner the name goes to the lower left, to stay inside."""
    (box,) = place_names([(398, 298)], [SIZE], [], INSIDE)
    assert box.common(INSIDE) == box.area
    assert box.right < 398
    assert box.top < 298


def test_lines_are_left_free() -> None:
    """A line where the name would stand sends it elsewhere."""
    line = Box(0, 107, 400, 109)
    (box,) = place_names([(100, 100)], [SIZE], [line], INSIDE)
    assert box.common(line) == 0


def test_no_name_stands_nearer_to_another_mark() -> None:
    """Of two marks one above the other each has its own name beside it, or a line to it."""
    marks = [(100.0, 100.0), (100.0, 96.0)]
    boxes = place_names(marks, [SIZE] * 2, [], INSIDE)
    for mark, other, box in ((marks[0], marks[1], boxes[0]), (marks[1], marks[0], boxes[1])):
        assert needs_line(box, mark) or box.distance(mark) < box.distance(other)


@given(st.lists(st.tuples(st.integers(20, 380), st.integers(20, 280)), max_size=8, unique=True))
def test_few_names_never_touch(spots: list[tuple[int, int]]) -> None:
    """Eight names or fewer, wherever their marks are: none covers another, a mark, or the edge."""
    marks = [(float(x), float(y)) for x, y in spots]
    boxes = place_names(marks, [SIZE] * len(marks), [], INSIDE)
    for place, box in enumerate(boxes):
        assert box.common(INSIDE) >= 0.999 * box.area
        assert all(box.common(other) == 0 for other in boxes[:place])
        assert all(box.distance(mark) > 0 for mark in marks)
