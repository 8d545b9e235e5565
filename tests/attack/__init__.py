"""The service attacked, from outside and from the machine that it runs on: each must fail."""
