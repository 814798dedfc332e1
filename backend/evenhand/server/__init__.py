"""The processes: supervisor, web server settings, bounds on clients."""
