"""Samplers: they choose the points of a ray at which the field is evaluated."""
