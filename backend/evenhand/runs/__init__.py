"""What the worker does: statistics, live warnings, scheduled runs, and what is told about them."""
