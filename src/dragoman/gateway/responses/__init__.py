"""Stored responses: in memory, in SQLite, in Redis, or at the upstream that stores them."""
