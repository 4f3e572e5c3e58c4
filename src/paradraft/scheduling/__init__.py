"""Which rows run in a step and how far they draft. Policy only, on any clock."""
