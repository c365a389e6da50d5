"""The editor in the terminal: a model without a terminal, and the app around it in `app/`."""
