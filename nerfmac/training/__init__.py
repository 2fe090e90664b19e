"""Learning a field from photographs: losses, optimizer, the compiled step, state on disk."""
