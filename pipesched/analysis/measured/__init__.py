"""Measured timelines: what the ranks of a run recorded becomes one schedule on one clock, with measured costs."""
