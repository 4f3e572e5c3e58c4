"""What clients may send, field by field; unknown fields are refused."""
