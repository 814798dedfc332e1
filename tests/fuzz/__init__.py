"""Hostile input: a fixed corpus of nasty files, and the targets that fuzzers call."""
