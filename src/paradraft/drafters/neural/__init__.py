"""Drafts by networks that read the hidden states of the target; the tensors are behind a port."""
