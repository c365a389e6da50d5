"""Layouts as Megatron-LM writes them (its pipeline-model-parallel-layout): what each stage has, read and written.

E is the embedding, t a decoder layer, m a layer of multi-token prediction, L the head with a loss. `|` separates
stages, `*n` repeats the letter or the group in parentheses before it: "Et*9|(t*10|)*6t*10L". A stage may have nothing,
and several may have a loss. More than Megatron's own reader, ours allows spaces, and groups inside groups. As there,
commas mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from pipesched.checks import require_text, shown
from pipesched.errors import ConfigError

KEY = "layout"
LETTERS = {"E": "embedding", "t": "layer", "m": "MTP layer", "L": "head with the loss"}
KNOWN = ", ".join(f"{letter} ({name})" for letter, name in LETTERS.items())
MOST = 100_000  # letters of a text with its repeats written out
DEEPEST = 50  # groups inside groups
# a letter or another sign, and where it is none of ( and *, how often it is repeated
TOKEN = r"(?P<sign>[^\s,])(?:(?<![(*])[\s,]*(?P<star>\*)(?:\s*(?P<count>[0-9]{1,7})(?![0-9]))?)?"


class StageItems(NamedTuple):
    """What a stage has: the embedding or not, layers, layers of multi-token prediction, heads with a loss."""

    embedding: int
    layers: int
    mtp: int = 0
    head: int = 0

    @property
    def items(self) -> int:
        return self.embedding + self.layers + self.mtp + self.head


def stages_of(ends: Sequence[int], layers: int, mtp: int = 0) -> tuple[StageItems, ...]:
    """Return the items of each stage of a cut: its ends in the list [embedding, layers.., MTP layers.., head]."""
    letters = "E" + "t" * layers + "m" * mtp + "L"
    stages = [letters[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]
    return tuple(StageItems(*map(its.count, LETTERS)) for its in stages)


def stages_of_counts(counts: Sequence[int], mtp: int = 0) -> tuple[StageItems, ...]:
    """Return stages of these layers: the embedding on the first, MTP layers and the loss on the last."""
    last = len(counts) - 1
    rows = enumerate(counts)
    return tuple(StageItems(at == 0, count, mtp if at == last else 0, at == last) for at, count in rows)


def looks_like_text(layout: object) -> bool:
    """Return whether a layout is meant as Megatron-LM's text: any other text is the name of a rule."""
    return isinstance(layout, str) and ("|" in layout or "*" in layout or (layout != "" and {*layout} <= {*LETTERS}))


def megatron_text(stages: Sequence[StageItems]) -> str:
    """Return Megatron-LM's text of a layout; equal stages in a row are a group where that is shorter."""
    *texts, last = [
        "".join(f"{one}*{count}" if count > 2 else one * count for one, count in zip(LETTERS, stage, strict=True))
        for stage in stages
    ]
    rows = ((text, len([*equal])) for text, equal in groupby(texts))
    return "".join(min(f"{text}|" * count, f"({text}|)*{count}", key=len) for text, count in rows) + last


def layout_text(letters: str, stages: Sequence[StageItems]) -> str:
    """Return stages as Megatron-LM writes them: of hybrid `letters` their pattern with | between stages, MEM|EM*E."""
    if not letters:
        return megatron_text(stages)
    ends = [0, *accumulate(stage.layers for stage in stages)]
    return "|".join(letters[begin:end] for begin, end in pairwise(ends))


def read_megatron_text(
    text: str, *, stages: int | None = None, layers: int | None = None, mtp: int | None = None
) -> tuple[StageItems, ...]:
    """Return the items of each stage of a layout, which has each number of `stages`, `layers` and `mtp` that is given.

    Raises ConfigError about the parameter `layout`.
    """
    letters = _written_out(require_text(text, KEY))
    items = letters.replace("|", "")
    if not re.fullmatch("Et*m*L+", items):
        for letter in "EL":
            if items.count(letter) != 1 and (letter == "E" or letter not in items):
                raise ConfigError(f"must have one {letter} ({LETTERS[letter]}), not {items.count(letter)}", KEY)
        if not items.startswith("E"):
            raise ConfigError(f"must begin with E (embedding), not {items[0]} ({LETTERS[items[0]]})", KEY)
        if not items.endswith("L"):
            raise ConfigError(f"must end with L (head with the loss), not {items[-1]} ({LETTERS[items[-1]]})", KEY)
        raise ConfigError("all t (layers) must come before the first m (MTP layer)", KEY)
    parts = letters.split("|")
    for letter, stage in (("E", 0), ("L", len(parts) - 1)):
        if letter not in parts[stage]:
            raise ConfigError(f"stage {stage} of {len(parts)} must have {letter} ({LETTERS[letter]})", KEY)
    found = {"stages": len(parts), "layers": letters.count("t"), "MTP layers": letters.count("m")}
    for (what, count), expected in zip(found.items(), (stages, layers, mtp), strict=True):
        if expected is not None and count != expected:
            raise ConfigError(f"has {count:,} {what}; there must be {expected:,}", KEY)
    return tuple(StageItems(*map(part.count, LETTERS)) for part in parts)


def _written_out(text: str) -> str:
    """Return a text with its repeats written out: of units, each a letter, a `|` or a group. Raises ConfigError."""
    letters, opened, before = "", list[tuple[str, int]](), -1  # of each open group what stands before it, and its place
    for token in _tokens(text):
        unit, place = token["sign"], token.start()
        if unit == "(":
            if len(opened) == DEEPEST:
                raise _wrong(f"more than {DEEPEST} groups inside each other", place, text)
            opened.append((letters, place))
            letters, before = "", place
            continue
        if unit == ")":
            if not opened:
                raise _wrong("a closing parenthesis without an opening one", place, text)
            unit, (letters, place) = letters, opened.pop()
            if before == place or not token["star"]:
                unsaid = "a group in parentheses must be followed by *n, how often it is repeated"
                raise _wrong("a group of nothing" if before == place else unsaid, place, text)
        if token["star"] and not token["count"]:
            raise _wrong("* must be followed by a whole number of at most 7 digits", token.start("star"), text)
        count, before = int(token["count"] or 1), token.start()
        if len(letters) + len(unit) * count > MOST:
            raise _wrong(f"more than {MOST:,} letters with all repeats written out", place, text)
        letters += unit * count
    if opened:
        raise _wrong("an opening parenthesis without a closing one", opened[-1][1], text)
    return letters


def _tokens(text: str) -> Iterator[re.Match[str]]:
    if len(text) > MOST:
        raise ConfigError(f"must be a text of at most {MOST:,} letters, not {len(text):,}", KEY)
    for token in re.finditer(TOKEN, text):
        sign = token["sign"]
        if sign == "*":
            raise _wrong("* must follow a letter, | or a group in parentheses", token.start(), text)
        if sign not in (*LETTERS, *"|()"):
            near = next((f"did you mean {one}? " for one in LETTERS if one.lower() == sign.lower()), "")
            raise _wrong(f"unknown {shown(sign)}; {near}known are {KNOWN}, |, ( ) and *n", token.start(), text)
        yield token


def _wrong(what: str, place: int, text: str) -> ConfigError:
    return ConfigError(f"{what} (at letter {place + 1} of {shown(text)})", KEY)
