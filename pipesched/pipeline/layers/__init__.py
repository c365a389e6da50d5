"""Layers become stages: counts by stage, their text, and the search of the best cut."""
