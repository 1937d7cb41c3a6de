"""Bytes and frames: server-sent events and incremental JSON.  Knows nothing of what they mean."""
