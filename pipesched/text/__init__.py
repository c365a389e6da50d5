"""The text of a config: values that know where they stand, and the table of its keys."""
