"""Bytes: what is read and written, for us, for PyTorch, for browsers and for training frameworks."""
