"""Coding agents and SDKs of other projects, driven through the gateway.

Run by `make test-agents`, which installs them; without that nothing here is collected.
"""
