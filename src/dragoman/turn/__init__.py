"""The common language of all dialects: requests, the events of a response, and the order of events.

Knows no vendor's field names.
"""
