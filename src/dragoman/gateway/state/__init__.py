"""What workers of one gateway and gateways on several machines share."""
