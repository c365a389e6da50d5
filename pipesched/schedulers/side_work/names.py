"""The rules by which side work stands among the slots of a family."""

from __future__ import annotations

FIRST, BUBBLES = RULES = ("first", "bubbles")
