"""Files: readers and writers, for us, for PyTorch and for browsers."""
