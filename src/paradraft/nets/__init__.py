"""Networks that draft: pure modules shared by training and serving, and the folders that hold their weights."""
