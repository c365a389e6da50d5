"""The command line: one file a command, which reads options, calls one function and prints."""
