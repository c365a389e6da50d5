"""Results as dicts of JSON documents, version 1, and back; no bytes, no pictures."""
