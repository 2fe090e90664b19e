"""Measurement of speed, comparison of kernels with references, and selection of variants."""
