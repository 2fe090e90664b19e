"""Measurement of the speed of a training step, and comparison of kernels with references."""
