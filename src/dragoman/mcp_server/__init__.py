"""The MCP server: the library's own calls as tools.

Thin: each tool reads its arguments, calls the library, and tells what came back.  No parser, no retries, no
policy of its own; which upstreams there are, a `Upstreams` says.
"""
