"""Reading answers from tables, files and exports: one reader per format. Here is what their options need, unread."""

#: Columns that a table of answers may have.
OPTIONAL = ("coin", "task", "time", "lead_time", "stratum")
#: Our names that `--map` gives to the columns of another table.
MAPPABLE = ("annotator", "left", "right", "choice", "outcome", "label", *OPTIONAL)
#: The most that is read into memory unless somebody says more.
MOST_BYTES, MOST_ROWS = 2_000_000_000, 20_000_000
