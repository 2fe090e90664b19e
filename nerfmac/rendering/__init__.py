"""Rendering: shading of samples, whole images, and image metrics."""
