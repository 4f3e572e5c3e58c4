"""The step, its rows, text and statistics."""
