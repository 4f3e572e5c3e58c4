"""The parts that guess; one file or folder each."""
