"""The schedule families of the literature: functions `Problem -> Plan`, and their facts; relatives in one file."""
