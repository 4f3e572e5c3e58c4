"""From events to what clients read."""
