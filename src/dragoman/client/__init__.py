"""The client: asks one server, strictly and within bounds."""
