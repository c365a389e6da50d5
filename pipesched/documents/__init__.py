"""Results as JSON documents, and back; no bytes, no pictures."""
