"""The same method in PyTorch, to measure nerfmac against: what a researcher would write today.

Plain PyTorch operations, `torch.compile` where it pays, no extensions of its own. It has
nerfmac's configuration, geometry, starting values and recipe, so only the implementation differs.
nerfmac does not depend on PyTorch: `torch_peer.compare` can be imported without, and refuses to
compare with one sentence. `python scripts/compare_torch.py` runs it.
"""
