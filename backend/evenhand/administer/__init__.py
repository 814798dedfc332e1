"""What a person asks for: connecting and disconnecting a project, checking the service, erasing somebody."""
