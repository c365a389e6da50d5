"""Schedules that a person edits: the model of `pipesched explore`, without a terminal, and its app in `app/`."""
