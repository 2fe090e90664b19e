"""Training a field from photos: losses, optimizer, compiled training step, and checkpoints."""
