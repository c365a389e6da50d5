"""The section `trust` of a config: whose published runs an estimate is like, and whether to search beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipesched.checks import require_flag, require_name
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from pipesched.text.sections import Section


FITS = ("sure", "likely")  # by the upper end of the interval of its memory, or by the estimate


class TrustSection(NamedTuple):
    """What a config says of trust: the source whose software and cluster its own are `like`; `beyond` all evidence.

    `fits`: whether what `tune` finds first must surely fit, or is only likely to.
    """

    like: str | None = None
    beyond: bool = False
    fits: str = "sure"


def read_trust(section: Section | None) -> TrustSection:
    """Return what the section says. Raises ConfigError that says where the value at fault stands."""
    if section is None:
        return TrustSection()
    from pipesched.estimation.trust.evidence import evidence_base
    from pipesched.text.sections import Entries, located

    try:
        entries = Entries(section.value, "trust", TrustSection._fields)
        like = entries.plain("like")
        if like is not None:
            evidence_base().require_source(like, "trust.like")
        beyond = require_flag(entries.plain("beyond", False), "trust.beyond")
        return TrustSection(
            like, beyond, require_name(FITS, entries.plain("fits", FITS[0]), "way to fit", "trust.fits")
        )
    except ConfigError as error:
        raise located(error, {"trust": section}) from None
