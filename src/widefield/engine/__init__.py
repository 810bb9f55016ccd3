"""One training program, three kinds of width: dense, conditioned, mean field (docs/theory.md)."""
