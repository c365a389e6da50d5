"""Typer without its validation library: what is taken over, and what is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipesched.cli.app import command_of, make_fast


class Parameter(SimpleNamespace):
    """What a parameter of Click has that matters here."""

    def process_value(self, context: object, value: Any) -> Any:
        raise AssertionError("the validation library was asked")


def parameter(**attributes: Any) -> Parameter:
    return Parameter(**{"required": False, "multiple": False, "nargs": 1, "callback": None, **attributes})


@pytest.mark.parametrize("value", ["5", "", True, False, None, ("a", "b")])
def test_what_was_parsed_is_the_value(value: object) -> None:
    """Texts, flags and lists are handed on as they are."""
    one = parameter()
    make_fast([one])
    assert one.process_value(None, value) is value


@pytest.mark.parametrize("attributes", [{"multiple": True}, {"nargs": -1}])
def test_a_list_that_was_not_given_is_empty(attributes: dict[str, Any]) -> None:
    one = parameter(**attributes)
    make_fast([one])
    assert one.process_value(None, None) == ()
    assert one.process_value(None, ("a",)) == ("a",)


def test_callbacks_are_called() -> None:
    """A parameter with a callback has its result."""
    one = parameter(callback=lambda context, own, value: (context, own.name, value), name="own")
    make_fast([one])
    assert one.process_value("context", "text") == ("context", "own", "text")


def test_required_ones_are_left_alone() -> None:
    """That a value is missing is for Typer to say."""
    one = parameter(required=True)
    make_fast([one])
    with pytest.raises(AssertionError, match="was asked"):
        one.process_value(None, "text")


def test_another_typer_is_left_alone() -> None:
    """A parameter without that method is not given one."""
    one = SimpleNamespace(required=False)
    make_fast([one])
    assert vars(one) == {"required": False}


def test_brackets_in_a_help_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """`pip install 'pipesched[torch]'` is printed whole, and the help of the command stays what it was."""
    command = command_of("train")
    before = command.help
    command.main(["--help"], standalone_mode=False)
    assert "'pipesched[torch]'" in capsys.readouterr().out
    assert command.help == before
