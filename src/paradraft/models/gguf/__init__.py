"""Models in GGUF files: header, tensors, configuration and tokenizer from one file's metadata."""
