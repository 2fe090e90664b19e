"""Measurements: what a machine does in what time."""
