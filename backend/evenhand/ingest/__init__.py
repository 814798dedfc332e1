"""What arrives from Label Studio: events, pulls, reviewers' decisions."""
