"""Text of a config to values that know where they stand, and back."""
