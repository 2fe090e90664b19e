"""Training of a field from photos: losses, optimizer, compiled step, and checkpoints."""
