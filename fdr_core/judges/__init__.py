"""Judges that are programs: their logs, the order effect, the gate of a build, clean preference pairs."""
