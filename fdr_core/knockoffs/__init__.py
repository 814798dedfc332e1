"""Two knockoff constructions: the paper's fixed design, and coin flips."""
