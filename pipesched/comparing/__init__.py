"""Algorithms and given plans side by side, at one value or at several."""
