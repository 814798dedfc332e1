"""Attacks on a running service, short in the tests and long by `python -m tests.attacks --long`."""
