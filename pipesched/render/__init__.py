"""What people see in a terminal: charts and tables as Rich renderables. Nothing here prints."""
