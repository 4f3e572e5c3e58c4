"""Records, ports and errors; nothing but the standard library and numpy."""
