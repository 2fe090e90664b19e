"""Where rays are sampled."""
