"""Where data live that tests use and the project does not contain: PIPESCHED_DATA, or `shared` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(os.environ.get("PIPESCHED_DATA", Path(__file__).parents[2] / "shared"))
