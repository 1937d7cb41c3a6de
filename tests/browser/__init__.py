"""The inspector's page in a real Chromium.

Run by `make test-browser`, which finds or installs the browser; without that nothing here is collected.
"""
