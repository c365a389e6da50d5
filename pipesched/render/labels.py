"""What may stand in a slot of a chart."""

from __future__ import annotations

LABELS = ("auto", "microbatch", "op", "stage", "none")
