"""Where independent calls run: in this process, in processes of this machine, or on a cluster."""
