"""Schedules as one HTML page that needs no network: what it shows, and the page itself in `page/`."""
