"""What annotators agree on, fitted without looking at sides, and the ranking that follows."""
