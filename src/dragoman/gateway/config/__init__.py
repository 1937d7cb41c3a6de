"""The operator's file: what may stand in it, how it is read, checked, written and shown."""
