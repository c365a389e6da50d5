"""The schedule families of the literature: one file a family, a function `Problem -> Plan`, and its facts."""
