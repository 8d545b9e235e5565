"""The service attacked from the machine it runs on: each test is an attack that must fail."""
