"""Injects faults into a running service, one by one, and checks what is left of it afterwards."""
