"""Exact speculative decoding: text generation made faster without changing what the model says."""
