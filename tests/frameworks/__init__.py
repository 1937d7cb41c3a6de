"""Python frameworks of other projects, driven through the gateway over the simulator.

Run by `make test-frameworks`, which installs them; without that nothing here is collected.
"""
