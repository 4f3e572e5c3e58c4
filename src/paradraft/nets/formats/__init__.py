"""The layouts in which the world keeps drafters: configuration keys, tensor names, numbering of layers."""
