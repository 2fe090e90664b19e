"""`nerfmac profile`: measure the training step time by kernel."""
