"""The command line: a module for each command, which reads options, calls the library and prints the answer."""
