"""Charts and tables for terminals, as Rich renderables, and figures. Nothing here prints."""
