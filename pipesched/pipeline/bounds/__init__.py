"""What no schedule beats: lower bounds of time, and of memory."""
