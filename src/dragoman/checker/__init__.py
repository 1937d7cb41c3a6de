"""The strict checker of streams.  No module that translates imports it."""
