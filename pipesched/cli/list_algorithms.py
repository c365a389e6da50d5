"""`pipesched list`: the algorithms, and what to know before using one."""

from __future__ import annotations

from pipesched.cli.options import Screen


def command(*, screen: Screen) -> None:
    """List the algorithms: needs, placement, bubble and memory formulas, and who else implements them."""
    from pipesched.cli.output import console_for, print_json
    from pipesched.formats.comparison_json import rows_document
    from pipesched.render.catalogue import catalogue, catalogue_rows
    from pipesched.schedulers.registry import all_families

    families = list(all_families())
    if screen.as_json:
        print_json(rows_document("list", catalogue_rows(families)))
    else:
        console_for(screen).print(catalogue(families))
