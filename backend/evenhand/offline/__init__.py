"""What works on files, without a service."""
