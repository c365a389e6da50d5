"""Cutting lists of items into contiguous chunks: the best cut, proved for most lists."""
