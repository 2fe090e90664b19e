"""Measurement of speed, comparison of kernels with references, and selection of variants.

timing, ceilings   median and quartiles of a call; maximum rates of the device
launches           recorded launches of a training step or any computation, and their work
inputs             arrays as in a training step
bench              benchmarks of operations, an image, models, a video, ranks
profile            training step time by kernel
selftest           comparison of every kernel with its reference; a report about the machine
tuning             selection of the fastest variant of each operation, cached for this machine
"""
