"""Side work beside the slots of a family: the rules by which devices and places of it are chosen."""
