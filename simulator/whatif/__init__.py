"""A step on a chip as it is and with numbers of the chip changed: what moves, and by how much."""
