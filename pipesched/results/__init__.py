"""Outcomes, comparisons, sweeps, frontiers; `run`; what frameworks take of them."""
