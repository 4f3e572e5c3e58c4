"""How models write calls of tools, and how they are read again."""
