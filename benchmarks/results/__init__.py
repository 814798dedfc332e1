"""The results: the paper's tables, real data and peers side by side, from seeds, into docs/results.md."""
