"""Robustness: what a schedule's order costs when durations vary, and when a device is slow."""
