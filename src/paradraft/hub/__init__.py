"""Brings model files and prompt sets into the user's cache, checked by hash."""
