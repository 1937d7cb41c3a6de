"""Kept responses: in SQLite here, or at the upstream that keeps them."""
