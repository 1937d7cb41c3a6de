"""The programs of `tools/` that verbs of the Makefile run."""
