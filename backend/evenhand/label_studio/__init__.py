"""Everything that knows Label Studio's addresses, field names and habits."""
