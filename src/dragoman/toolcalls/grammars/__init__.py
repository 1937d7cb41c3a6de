"""Grammars that several families share."""
