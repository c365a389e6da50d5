"""Advice: which one change of a solve's problem or settings would make its schedule shorter, by heuristics alone."""
