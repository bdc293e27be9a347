"""Where clusters lie on devices, and which pairs of them cost at most a limit."""
