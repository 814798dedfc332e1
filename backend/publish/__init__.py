"""Publishing to Label Studio."""
