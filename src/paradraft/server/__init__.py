"""The HTTP server: OpenAI's interface in front of whatever engine the composition root gives it."""
