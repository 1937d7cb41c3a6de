"""The client: sends requests to one server and reads its answers, within limits and timeouts.

The core writes requests and reads answers; the client only moves bytes.  It never retries and never runs a tool.
"""
