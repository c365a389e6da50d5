"""Charts, tables, figures and the page. Nothing here prints."""
