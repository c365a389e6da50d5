"""The command line: one file a command, no arithmetic in any."""
