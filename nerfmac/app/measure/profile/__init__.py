"""`nerfmac profile`: the time of a training step by kernel."""
