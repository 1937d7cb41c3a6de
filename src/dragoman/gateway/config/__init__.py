"""The operator's file: its keys, and how it is read, checked, written and shown."""
