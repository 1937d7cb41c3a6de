"""Recordings of exchanges: one file each, written by the gateway, read by the commands over recordings."""
