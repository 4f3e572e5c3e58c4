"""The decode core of the house: C++ behind a plain C interface, numpy in and out, no torch."""
