"""A deterministic upstream for offline tests: serves every dialect, native tool format and fault."""
