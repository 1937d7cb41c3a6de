"""Bytes and frames: server-sent events and incremental JSON, independent of any dialect."""
