"""The families of the literature: functions `Problem -> Plan`, and their facts."""
