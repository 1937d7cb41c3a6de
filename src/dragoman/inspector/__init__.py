"""The inspector: a page over recorded exchanges, and the JSON that it reads."""
