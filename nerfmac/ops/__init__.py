"""Operations with a reference in plain MLX, and with kernels where kernels are faster.

The module of an operation contains a public function that checks the arguments, the reference that
defines the operation, and the launches of the kernel and of its gradient kernel. The decorator
`operation` combines the kernel and the reference. An operation runs the kernel if `runs_kernel`
returns True for its name. If `runs_kernel` returns False, the operation runs the reference.

Kernels and references have the same dtypes, so each operation can be replaced by its reference
independently of the others. Features, tables, and activations may be float32 or
`nerfmac.backend.working_dtype()`. Kernels convert these arrays to the working dtype, and return
features and their gradients in the working dtype. All other floats are float32.
"""
