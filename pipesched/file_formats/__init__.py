"""Bytes: what is read and written, for us, for PyTorch and for browsers."""
