"""The section `trust` of a config: whose published runs an estimate is like, and whether to search beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipesched.checks import require_flag
from pipesched.errors import ConfigError
from pipesched.pipeline.shapes import Flag, Label, declare, declared

if TYPE_CHECKING:
    from pipesched.text.sections import Section


@dataclass(frozen=True)
class TrustSection:
    """What a config says of trust: the source whose software and cluster its own are `like`; `beyond` all evidence."""

    like: str | None = declare(
        Label(), "the source of published runs whose software and cluster are like one's own", None
    )
    beyond: bool = declare(Flag(), "whether tune looks beyond what was measured; default false", False)


def read_trust(section: Section | None) -> TrustSection:
    """Return what the section says. Raises ConfigError that says where the value at fault stands."""
    if section is None:
        return TrustSection()
    from pipesched.estimation.trust.evidence import evidence_base
    from pipesched.text.sections import Entries, located

    try:
        entries = Entries(section.value, "trust", [*declared(TrustSection, "trust")])
        like = entries.plain("like")
        if like is not None:
            evidence_base().require_source(like, "trust.like")
        return TrustSection(like, require_flag(entries.plain("beyond", False), "trust.beyond"))
    except ConfigError as error:
        raise located(error, {"trust": section}) from None
