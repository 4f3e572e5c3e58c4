"""The target: loading, tokenizer, the torch runner and the transformers runner."""
