"""Learning a field from photographs: losses, optimiser, the compiled step, state on disk."""
