"""A hook of MkDocs: the site holds a live page of the default model, which a page of the documentation shows.

The page is made from the schedules themselves when the site is built, so it is never out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pipesched

ALGORITHMS = ("1f1b", "interleaved", "zb-v")
PLACE = "live/default.html"


def on_post_build(config: Any, **_: Any) -> None:
    """Write the page into the site."""
    path = Path(config.site_dir) / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    pipesched.write(pipesched.compare(pipesched.load(), ALGORITHMS), path, force=True)
