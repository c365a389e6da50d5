"""A finished schedule: why it takes so long, how sure that is, how it ran."""
