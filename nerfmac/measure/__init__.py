"""Speed is measured (bench, profile), kernels are compared and chosen (selftest, tuning)."""
