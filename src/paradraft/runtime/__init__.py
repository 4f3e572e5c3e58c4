"""Where the parts run: here, inline, an engine on a thread of its own."""
