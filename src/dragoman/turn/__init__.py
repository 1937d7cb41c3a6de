"""The language between the dialects: requests, stream events, what may follow what.

Knows no vendor's field names.
"""
