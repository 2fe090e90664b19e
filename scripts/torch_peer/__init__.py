"""The same method in PyTorch, to measure nerfmac against: what a researcher would write today.

Plain PyTorch operations, `torch.compile` where it pays, no extensions of its own. It shares
nerfmac's configuration, geometry, starting values and recipe, so only the implementation differs.
Its modules import torch, which nerfmac does not depend on; `torch_peer.compare` imports them
when they are asked for.
"""
