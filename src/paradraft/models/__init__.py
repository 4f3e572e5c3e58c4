"""The target: loading, tokenizer, the torch runner and the transformers runner, and which runner serves."""
