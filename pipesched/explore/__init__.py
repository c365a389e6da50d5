"""The editor in the terminal: its model, and in `app/` the app around it."""
