"""Reading answers from tables, files and exports: one reader per format."""
