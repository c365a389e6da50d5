"""What errors say: one line, about a parameter, with its place where it has one; and the checks that raise them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched import (
    ConfigError,
    Deadlock,
    InvalidSchedule,
    NoSchedule,
    NotApplicable,
    PipeschedError,
    Status,
    StoppedBy,
)
from pipesched.checks import (
    cut,
    joined,
    look_up,
    require_callable,
    require_flag,
    require_label,
    require_mapping,
    require_name,
    require_number,
    require_sequence,
    require_text,
    require_type,
    require_whole,
    shown,
)
from pipesched.errors import Remedy


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("must be 1"), "must be 1"),
        (ConfigError("must be 1", "devices"), "devices: must be 1"),
        (ConfigError("must be 1", "forward", entry=2), "forward[2]: must be 1"),
        (ConfigError("must be 1", "forward", entry=0, where="a.yaml:3: costs.forward"),
         "a.yaml:3: costs.forward[0]: must be 1"),
        (ConfigError("must be 1", where="a.yaml:3: devices"), "a.yaml:3: devices: must be 1"),
        (NotApplicable("needs 2", "stages"), "needs 2"),
        (NotApplicable("needs 2", "stages", where="a.yaml:3: stages"), "a.yaml:3: stages: needs 2"),
    ],
)  # fmt: skip
def test_subject_and_message(error: ConfigError, text: str) -> None:
    """The text begins with the place in a file, else with the parameter; `message` is without both."""
    assert str(error) == text
    assert error.message in ("must be 1", "needs 2")
    assert isinstance(error, PipeschedError)


def test_the_same_error_somewhere_else() -> None:
    """`at` gives an error its place, `about` its parameter unless it has one; type, entry and message stay."""
    error = NotApplicable("needs 2", "stages", entry=1)
    placed = error.at("a.yaml:3: stages")
    assert (type(placed), placed.message, placed.key, placed.entry, placed.where) == (
        NotApplicable, "needs 2", "stages", 1, "a.yaml:3: stages")  # fmt: skip
    assert error.about("devices") is error
    nameless = ConfigError("must be 1", entry=3).about("devices")
    assert (type(nameless), str(nameless)) == (ConfigError, "devices[3]: must be 1")


ERRORS = [
    ConfigError("must be 1", "devices", entry=2, where="a.yaml:3: devices"),
    NotApplicable("needs 2", "stages"),
    NoSchedule("too little", device=1, floor=2.5, budget=2, would_fit=[Remedy("more", "budget")]),
    InvalidSchedule("breaks rules", ["one", "two"]),
    Deadlock("deadlock", [(1, 0), (2, 1)], [3, 4]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_processes(error: PipeschedError) -> None:
    """An error that comes from another process, or a copy, has its text and all that it knows."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
        assert [one.key for one in getattr(again, "would_fit", ())] == [
            one.key for one in getattr(error, "would_fit", ())
        ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        ("two\nlines", r"'two\nlines'"),
        (Decimal("0.1"), "0.1"),
        (Fraction(1, 3), "1/3"),
        ([1, None, "x"], "[1, null, 'x']"),
        ((1, (2, True)), "[1, [2, true]]"),
        ("x" * 100, "'" + "x" * 56 + "..."),
        (np.array([[1, 2], [3, 4]]), "array([[1, 2], [3, 4]])"),
        ([[[[1]]], [[[]]]], "[[[[..]]], [[[]]]]"),
        (["x" * 100], "['" + "x" * 55 + "..."),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..]"),
    ],
)
def test_values_in_messages(value: Any, text: str) -> None:
    """As a config spells them, exact, and cut where they are long."""
    assert shown(value) == text


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_value_is_shown_on_one_short_line(value: Any) -> None:
    """Whatever stands in the place of a number, the message stays one line of at most 60 characters."""
    assert len(shown(value)) <= 60
    assert "\n" not in shown(value)


class Odd:
    """Something whose text is of several lines, or an error."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text.format()


def nested(depth: int, width: int = 1) -> list[Any]:
    """A list in a list in a list.."""
    whole: list[Any] = []
    for _ in range(depth):
        whole = [whole] * width
    return whole


def test_numbers_of_more_digits_than_python_writes() -> None:
    """They are told by their type, like anything else that has no text."""
    assert shown(10**5000) == "a value of type int that cannot be written"
    assert shown([1, Fraction(1, 10**5000)]) == "[1, a value of type Fraction that cannot be written]"


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "value",
    [Odd("two\nlines"), Odd("{}"), Odd("x\t" * 100), nested(5000), nested(40, 12), ENDLESS, {"a": nested(5000)},
     np.zeros((50, 50)), np.array(4), "x" * 10**6, "\n" * 100, 10**400, Decimal("sNaN"), {1: "x" * 1000}],
    ids=range(14),
)  # fmt: skip
def test_anything_is_shown_on_one_short_line(value: Any) -> None:
    """Objects whose text is long, broken or endless are no exception, alone and in a list."""
    for one in (value, [value], [value] * 20):
        assert 0 < len(shown(one)) <= 60
        assert shown(one).isprintable()
    assert len(shown(value, 20)) <= 20


def test_lists_of_names_are_cut_between_names() -> None:
    """All names, or the first ones and how many there are."""
    assert joined(["a", "b"]) == "a, b"
    assert joined([f"name {number}" for number in range(50)], 40) == "name 0, name 1, .. 50 in all"
    assert joined(["x" * 100, "y"], 40) == "x" * 20 + ", .. 2 in all"
    assert (cut("one\ntwo"), cut("x" * 61)) == ("one two", "x" * 57 + "...")


WHOLE = [0, 5, np.int64(5), np.uint8(5), 10**30]
NUMBERS = [*WHOLE, 0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.float64(0.5)]


@pytest.mark.parametrize("value", WHOLE)
def test_whole_numbers(value: Any) -> None:
    """Integers of any library are whole numbers, and come back as int."""
    assert require_whole(value, "x") == value
    assert type(require_whole(value, "x")) is int


@pytest.mark.parametrize("value", [-1, 0.5, 5.0, "5", True, None, nan, [5], Fraction(5), np.float64(5), np.bool_(True)])
def test_no_whole_numbers(value: Any) -> None:
    """Negative numbers, broken ones, texts and truth values are not; the message says what is allowed."""
    with pytest.raises(ConfigError, match="x: must be a whole number of at least 0, not") as caught:
        require_whole(value, "x")
    assert caught.value.key == "x"


def test_limits_of_whole_numbers() -> None:
    """Both ends belong to what is allowed, and the message names them and the entry."""
    assert [require_whole(value, "x", least=1, most=1000) for value in (1, 1000)] == [1, 1000]
    for value in (0, 1001):
        with pytest.raises(ConfigError) as caught:
            require_whole(value, "x", least=1, most=1000, entry=3)
        assert str(caught.value) == f"x[3]: must be a whole number of at least 1 (at most 1,000), not {value}"


@pytest.mark.parametrize("value", NUMBERS)
def test_numbers(value: Any) -> None:
    """Numbers of any library are numbers, and come back as float."""
    assert require_number(value, "x") == float(value)
    assert type(require_number(value, "x")) is float


@pytest.mark.parametrize(
    "value", [-0.5, nan, inf, -inf, "1", True, None, [1], 1j, 10**400, Decimal("sNaN"), np.ones(2)]
)
def test_no_numbers(value: Any) -> None:
    """What is negative, infinite or no number is refused."""
    with pytest.raises(ConfigError, match="x: must be a number of at least 0, not"):
        require_number(value, "x")


def test_limits_of_numbers() -> None:
    """`above` excludes the least, `most` includes itself."""
    assert require_number(0, "x") == 0
    assert require_number(7, "x", most=7) == 7
    with pytest.raises(ConfigError, match="x: must be a number of more than 0, not 0"):
        require_number(0, "x", above=True)
    with pytest.raises(ConfigError, match=r"x: must be a number of at least 2 \(at most 1,000\), not 1001"):
        require_number(1001, "x", least=2, most=1000)


def is_even(number: int) -> bool:
    """A function."""
    return number % 2 == 0


@pytest.mark.parametrize(
    ("check", "good", "bad", "message"),
    [
        (require_flag, [True, False], [None, 0, 1, "yes", np.bool_(True)], "x: must be true or false, not"),
        (require_label, ["", "ms", "模型"], [None, 5, "a\nb", "\t", b"ms"], "x: must be one line of text, not"),
        (require_sequence, [[], (), [1]], [None, 5, "ab", {1}, {1: 2}, iter([])], "x: must be a list, not"),
        (require_text, ["", "a\nb"], [None, 5, b"ms"], "x: must be a text, not"),
        (require_callable, [None, is_even, print], [5, "f", [is_even]], "x: must be a function, not"),
    ],
)
def test_other_checks(check: Callable[[Any, str], Any], good: list[Any], bad: list[Any], message: str) -> None:
    """Each returns what is legal as it is, and refuses the rest about its parameter."""
    for value in good:
        assert check(value, "x") is value
    for value in bad:
        with pytest.raises(ConfigError, match=message) as caught:
            check(value, "x")
        assert caught.value.key == "x"


def test_mappings() -> None:
    """What has names comes back; else the message says what is due, and which name is none."""
    assert require_mapping({"a": 1}, "ways by name", "x") == {"a": 1}
    for bad, said in ((None, "not null"), ([], r"not \[\]"), ("", "not ''"), (0, "not 0"), ({1: 2}, "1 is no name")):
        with pytest.raises(ConfigError, match=f"x: must be ways by name[,;] {said}"):
            require_mapping(bad, "ways by name", "x")


def test_types() -> None:
    """What is of the type comes back; else the message says what it should be, in words."""
    assert require_type(5, int, "a number", "x") == 5
    with pytest.raises(ConfigError, match="x: must be a number, not '5'"):
        require_type("5", int, "a number", "x")


def test_looking_up() -> None:
    """An unknown name is answered with the nearest one, in any case of letters, and all that there are."""
    table = {"linear": 1, "loop": 2}
    assert (look_up(table, "loop", "placement"), require_name(table, "loop", "placement")) == (2, "loop")
    with pytest.raises(ConfigError) as caught:
        look_up(table, "LOOPS", "placement", "placement")
    assert str(caught.value) == ("placement: unknown placement 'LOOPS'; did you mean 'loop'? known are linear, loop")
    with pytest.raises(ConfigError, match="unknown placement 'xyz'; known are linear, loop"):
        look_up(table, "xyz", "placement")
    with pytest.raises(ConfigError) as caught:
        look_up(table, "l" * 100_000, "placement", "placement")
    assert str(caught.value) == f"placement: unknown placement '{'l' * 56}...; known are linear, loop"
    with pytest.raises(ConfigError, match="x: must be a name, one of linear, loop, not 5"):
        look_up(table, 5, "placement", "x")


def test_words_are_their_texts() -> None:
    """Status and StoppedBy are texts for JSON, comparisons and formats, and members of an enum for code."""
    status: str = Status.OPTIMAL
    assert status == "optimal" == str(status) == f"{status}"
    assert json.dumps(status) == '"optimal"'
    assert f"{StoppedBy.TIME_LIMIT:>12}" == "  time limit"
    assert [str(word) for word in Status] == ["optimal", "feasible", "heuristic"]
    assert [str(word) for word in StoppedBy] == ["proof", "gap", "time limit", "interrupt", "search"]
    assert Status("feasible") is Status.FEASIBLE
    assert pickle.loads(pickle.dumps(StoppedBy.GAP)) is StoppedBy.GAP
