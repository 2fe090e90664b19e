"""Measurement of speed, comparison of kernels with references, and selection of variants.

timing     Time of a function call, as median and quartiles.
ceilings   Maximum bandwidth and rate of operations of the device.
launches   Recording of the kernel launches of a computation, and of their bytes and operations.
inputs     Arrays with the sizes and values of a training step.
bench      Benchmarks of operations, of rendering, and of models.
profile    Training step time by kernel.
selftest   Comparison of every kernel with its reference, and a report about the machine.
tuning     Selection of the fastest variant of each operation, which is cached for this machine.
"""
