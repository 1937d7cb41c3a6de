"""The MCP server: the library's own calls as tools.

Thin: each tool reads its arguments, calls the library, and returns the result.  It has no parser, no retries
and no policy; an `Upstreams` object supplies the upstreams.
"""
