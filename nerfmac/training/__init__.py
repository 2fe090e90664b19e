"""Learning a field from photos: losses, optimizer, the compiled step, state on disk."""
