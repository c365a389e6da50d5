"""The terminal app of `pipesched explore`. Only this folder imports Textual."""
