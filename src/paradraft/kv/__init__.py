"""Who owns which slot of the key-value cache, in plain integers."""
