"""Operations with a reference in plain MLX and, where this is faster, kernels.

The module of an operation contains a public function that checks the arguments, the reference that
defines the operation, and the launches of the kernel and of its gradient. `operation` combines
these: it runs the kernel if `runs_kernel(operation)`, and otherwise the reference.

Kernels and references have the same dtypes, so any subset of the operations may run as references.
Features, tables, and activations may be float32 or `nerfmac.backend.working_dtype()`. They are
converted to the working dtype for kernels, and kernels return results in it. All other floats are
float32.
"""
