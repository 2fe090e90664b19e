"""Speed is measured (bench, profile), kernels are compared and chosen (selftest, tuning).

timing, ceilings   a call's median and quartiles; the device's highest rates
launches, step     recorded launches and their work; those of a training step
inputs             arrays like those of a training step
bench              operations, a picture, models, a film, ranks; the roofline
profile            where the time of a training step goes
selftest           every kernel against its reference; a report of the machine
tuning             the quickest variant of each operation, kept for this machine
"""
