"""What an upstream gets right and wrong: small questions, and what their answers show."""
