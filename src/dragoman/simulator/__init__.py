"""A deterministic model on a socket: an offline upstream of any dialect, native family and fault."""
