"""Pictures: charts, tables, figures and the page, for a terminal, a file and a notebook. Nothing here prints."""
