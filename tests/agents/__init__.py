"""Coding agents and SDKs that nobody here wrote, driven through the gateway.

Run by `make test-agents`, which installs them; without that nothing here is collected.
"""
