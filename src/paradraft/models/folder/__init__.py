"""Models in folders: safetensors or PyTorch weights beside a configuration and a tokenizer."""
