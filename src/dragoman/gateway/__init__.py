"""The gateway: clients of any dialect on one port, upstreams of any dialect behind it.

A pump around the core: it reads, feeds, writes and drains, and knows no dialect's fields.
"""
