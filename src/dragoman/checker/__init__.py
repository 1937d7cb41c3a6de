"""The strict judge of streams.  Nothing that translates imports it."""
