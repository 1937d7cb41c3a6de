"""What processes share: the counts of key limits."""
