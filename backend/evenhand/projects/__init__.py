"""Projects: their settings, how their tasks are read, their state, and what is kept about people."""
