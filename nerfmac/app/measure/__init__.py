"""Measures speed (bench, profile), compares kernels (selftest), chooses variants (tuning).

timing, ceilings   median and quartiles of a call; the device's highest rates
launches           recorded launches of a step or of any computation, and their work
inputs             arrays like those of a training step
bench              operations, an image, models, a video, ranks
profile            time of a training step by kernel
selftest           every kernel against its reference; a report about the machine
tuning             the fastest variant of each operation, kept for this machine
"""
