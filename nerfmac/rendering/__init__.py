"""Rendering of samples and images, and image metrics."""
