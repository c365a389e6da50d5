"""The schedule families of the literature, each in its own file; `registry` names them all."""
