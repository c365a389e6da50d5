"""The section `trust` of a config: whose published runs an estimate is like, and whether to search beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipesched.checks import require_flag, require_name
from pipesched.errors import ConfigError
from pipesched.pipeline.shapes import Flag, Label, OneOf, declare, declared

if TYPE_CHECKING:
    from pipesched.text.sections import Section


FITS = ("sure", "likely")  # by the upper end of the interval of its memory, or by the estimate


@dataclass(frozen=True)
class TrustSection:
    """What a config says of trust, in the section of that name."""

    like: str | None = declare(
        Label(), "the source of published runs whose software and cluster are like one's own", None
    )
    beyond: bool = declare(Flag(), "whether tune looks beyond what was measured; default false", False)
    fits: str = declare(
        OneOf(*FITS), "whether what tune finds first must surely fit (default), or likely, by its estimate", "sure"
    )


def read_trust(section: Section | None) -> TrustSection:
    """Return what the section says. Raises ConfigError that says where the value at fault stands."""
    if section is None:
        return TrustSection()
    from pipesched.estimation.trust.evidence import known_sources
    from pipesched.text.sections import Entries, located

    try:
        entries = Entries(section.value, "trust", [*declared(TrustSection, "trust")])
        like = entries.plain("like")
        if like is not None:
            require_name(known_sources(), like, "source of published runs", "trust.like")
        beyond = require_flag(entries.plain("beyond", False), "trust.beyond")
        return TrustSection(
            like, beyond, require_name(FITS, entries.plain("fits", FITS[0]), "way to fit", "trust.fits")
        )
    except ConfigError as error:
        raise located(error, {"trust": section}) from None
