"""Training a field from photos: losses, optimizer, the compiled step, checkpoints."""
