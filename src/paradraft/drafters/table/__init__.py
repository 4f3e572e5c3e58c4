"""Counted continuations: what the target went on with after its last few tokens, in a file and while serving."""
