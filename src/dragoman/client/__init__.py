"""The client: asks one server, strictly and within bounds.

Knows no dialect: requests are written and answers read by the core.  Never retries, never runs a tool.
"""
