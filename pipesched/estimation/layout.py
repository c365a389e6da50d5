"""Layouts of a transformer into stages: as Megatron-LM and torchtitan write them, and as users give them.

In Megatron-LM's text (`--pipeline-model-parallel-layout`, its pipeline_parallel_layer_layout.py) E is the embedding,
t a decoder layer, m a layer of multi-token prediction, L the head with the loss. `|` separates stages, `*n` repeats the
letter or the group in parentheses before it: "Et*9|(t*10|)*6t*10L". More than Megatron's own reader, ours allows
spaces, and groups inside groups. As there, commas mean nothing. Stages without any item are refused, which Megatron
allows. Users may also list the layers of each stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pipesched.checks import require_text, shown
from pipesched.errors import ConfigError, NotApplicable
from pipesched.estimation.model import ModelShape
from pipesched.estimation.setup import Setup
from pipesched.results.handover.subject import StageItems, megatron_text, torchtitan_modules

KEY = "layout"
LETTERS = {"E": "embedding", "t": "layer", "m": "MTP layer", "L": "head with the loss"}
KNOWN = ", ".join(f"{letter} ({name})" for letter, name in LETTERS.items())
MOST = 100_000  # letters of a text with its repeats written out
DEEPEST = 50  # groups inside groups
TOKEN = re.compile(r"\*\s*(?P<count>[0-9]{1,7})(?![0-9])|[^\s,]")


def layout_lines(model: ModelShape, stages: Sequence[StageItems], devices: int) -> Iterator[str]:
    """Yield what to give to Megatron-LM and to torchtitan for stages of a model on so many devices."""
    yield "# Megatron-LM"
    flag = "--hybrid-layer-pattern" if model.letters else "--pipeline-model-parallel-layout"
    yield f"--pipeline-model-parallel-size {devices} {flag} '{layout_text(model, stages)}'"
    yield ""
    yield "# torchtitan: module_fqns_per_model_part"
    try:
        modules = torchtitan_modules(stages)
    except NotApplicable as error:
        yield f"# {error.message}"
        return
    yield "["
    for names in modules:
        yield f"    {names},".replace("'", '"')
    yield "]"


def layout_document(model: ModelShape, stages: Sequence[StageItems]) -> dict[str, Any]:
    """Return format "pipesched.layout" (version 1): the texts, null where a framework cannot have these stages."""
    try:
        modules: Any = torchtitan_modules(stages)
    except NotApplicable:
        modules = None
    return {"format": "pipesched.layout", "version": 1, "megatron": layout_text(model, stages), "torchtitan": modules}


class Token(NamedTuple):
    """A letter, `|`, a parenthesis, or `*` with its number (-1 without); and where it stands, counted from 1."""

    sign: str
    times: int
    place: int


def read_megatron_text(
    text: str, *, stages: int | None = None, layers: int | None = None, mtp: int | None = None
) -> tuple[StageItems, ...]:
    """Return the items of each stage of a layout, which has each number of `stages`, `layers` and `mtp` that is given.

    Raises ConfigError about the parameter `layout`.
    """
    letters = _LayoutReader(require_text(text, KEY)).read()
    _require_order(letters.replace("|", ""))
    parts = letters.split("|")
    if "" in parts:
        what = f"stage {parts.index('')} of {len(parts)} has no items"
        raise ConfigError(f"{what}: between two | there must be at least one letter", KEY)
    found = {"stages": len(parts), "layers": letters.count("t"), "MTP layers": letters.count("m")}
    for (what, count), expected in zip(found.items(), (stages, layers, mtp), strict=True):
        if expected is not None and count != expected:
            raise ConfigError(f"has {count:,} {what}; there must be {expected:,}", KEY)
    return tuple(StageItems("E" in part, part.count("t"), part.count("m"), "L" in part) for part in parts)


def _require_order(letters: str) -> None:
    """Raise ConfigError unless these are E, then layers, then MTP layers, then L."""
    if re.fullmatch("Et*m*L", letters):
        return
    for letter in "EL":
        if letters.count(letter) != 1:
            raise ConfigError(f"must have one {letter} ({LETTERS[letter]}), not {letters.count(letter)}", KEY)
    if not letters.startswith("E"):
        raise ConfigError(f"must begin with E (embedding), not {letters[0]} ({LETTERS[letters[0]]})", KEY)
    if not letters.endswith("L"):
        raise ConfigError(f"must end with L (head with the loss), not {letters[-1]} ({LETTERS[letters[-1]]})", KEY)
    raise ConfigError("all t (layers) must come before the first m (MTP layer)", KEY)


class _LayoutReader:
    """Reads units, each a letter, a `|` or a group, and how often it is repeated."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MOST:
            raise ConfigError(f"must be a text of at most {MOST:,} letters, not {len(text):,}", KEY)
        self.tokens = [Token(it[0][0], int(it["count"] or -1), it.start() + 1) for it in TOKEN.finditer(text)]
        self.next = 0

    def read(self) -> str:
        """Return the text with its repeats written out."""
        letters = self._sequence(0)
        if self.next < len(self.tokens):
            raise self._error("a closing parenthesis without an opening one", self.tokens[self.next])
        return letters

    def _sequence(self, depth: int) -> str:
        """Return units up to a closing parenthesis, or the end."""
        letters, length = list[str](), 0
        while self.next < len(self.tokens) and self.tokens[self.next].sign != ")":
            token = self.tokens[self.next]
            self.next += 1
            unit = self._group(token, depth + 1) if token.sign == "(" else self._letter(token)
            count = self._repeats(token)
            length += len(unit) * count
            if length > MOST:
                raise self._error(f"more than {MOST:,} letters with all repeats written out", token)
            letters.append(unit * count)
        return "".join(letters)

    def _group(self, opened: Token, depth: int) -> str:
        """Return what is in a group, after its opening parenthesis."""
        if depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} groups inside each other", opened)
        begin = self.next
        letters = self._sequence(depth)
        if self.next == len(self.tokens):
            raise self._error("an opening parenthesis without a closing one", opened)
        if self.next == begin:
            raise self._error("a group of nothing", opened)
        self.next += 1
        return letters

    def _letter(self, token: Token) -> str:
        if token.sign == "*":
            raise self._error("* must follow a letter, | or a group in parentheses", token)
        if token.sign != "|" and token.sign not in LETTERS:
            near = next((f"did you mean {letter}? " for letter in LETTERS if letter.lower() == token.sign.lower()), "")
            raise self._error(f"unknown {shown(token.sign)}; {near}known are {KNOWN}, |, ( ) and *n", token)
        return token.sign

    def _repeats(self, before: Token) -> int:
        """Return how often a unit is repeated. A group must say it."""
        token = self.tokens[self.next] if self.next < len(self.tokens) else None
        if token is None or token.sign != "*":
            if before.sign == "(":
                raise self._error("a group in parentheses must be followed by *n, how often it is repeated", before)
            return 1
        if token.times < 0:
            raise self._error("* must be followed by a whole number of at most 7 digits", token)
        self.next += 1
        return token.times

    def _error(self, what: str, token: Token) -> ConfigError:
        return ConfigError(f"{what} (at letter {token.place} of {shown(self.text)})", KEY)


def layout_text(model: ModelShape, stages: Sequence[StageItems]) -> str:
    """Return stages as Megatron-LM writes them: of hybrid layers as their pattern with | between stages, MEM|EM*E."""
    if not model.letters:
        return megatron_text(stages)
    ends = [0, *accumulate(stage.layers for stage in stages)]
    return "|".join(model.letters[begin:end] for begin, end in pairwise(ends))


def ends_of_layout(setup: Setup, layout: tuple[int, ...] | str, stages: int) -> tuple[int, ...]:
    """Return the item behind the last of each stage of a given layout.

    A list counts layers; the embedding goes to the first stage, MTP layers and the head to the last. Raises ConfigError
    about `training.layout`, and NotApplicable where it is for another number of stages than an algorithm runs.
    """
    found = read_layout(setup, layout)
    if len(found) != setup.parallel.stages:
        due = f"pipeline x chunks = {setup.parallel.pipeline} x {setup.parallel.chunks} are {setup.parallel.stages}"
        raise ConfigError(f"is for {len(found)} stages; {due}", "training.layout")
    if stages != len(found):
        what = f"`training.layout` is for {len(found)} stages, not {stages}"
        raise NotApplicable(f"{what}; with `layout` balanced layers are cut anew", "stages")
    return tuple(accumulate(one.items for one in found))


def read_layout(setup: Setup, layout: tuple[int, ...] | str) -> tuple[StageItems, ...]:
    """Return the stages of a given layout. Raises ConfigError where they do not hold the model once, in order."""
    model = setup.model
    if isinstance(layout, str) and model.letters and not {*layout} & {*"tL"}:
        parts = "".join(layout.split()).split("|")
        if "".join(parts) != model.letters:
            said = f"must be the pattern of the model with | between stages: {model.letters}"
            raise ConfigError(said, "training.layout")
        layout = (*map(len, parts),)
    if isinstance(layout, str):
        try:
            found = read_megatron_text(layout)
        except ConfigError as error:
            raise ConfigError(error.message, "training.layout") from None
    else:
        last = len(layout) - 1
        found = tuple(
            StageItems(stage == 0, count, model.mtp if stage == last else 0, stage == last)
            for stage, count in enumerate(layout)
        )
    for what, count, there in (
        ("layers", sum(one.layers for one in found), model.layers),
        ("MTP layers", sum(one.mtp for one in found), model.mtp),
    ):
        if count != there:
            raise ConfigError(f"has {count} {what}; the model has {there}", "training.layout")
    empty = next((number for number, one in enumerate(found) if not one.items), None)
    if empty is not None:
        raise ConfigError(f"leaves stage {empty} empty: it needs at least a layer", "training.layout")
    return found
