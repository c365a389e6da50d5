"""Periodic schedules: a block of one or more microbatches with its offsets, repeated with a period."""
