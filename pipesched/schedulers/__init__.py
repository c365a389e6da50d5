"""The schedule families of the literature, one file each; `registry` names them all."""
