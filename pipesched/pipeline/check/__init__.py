"""The rules of a schedule, written apart from the code that builds one."""
