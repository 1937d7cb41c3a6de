"""Servers of other projects, as upstreams of the gateway.

Run by `make test-servers`, which installs them; without that nothing here is collected.
"""
