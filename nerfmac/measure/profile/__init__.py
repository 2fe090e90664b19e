"""`nerfmac profile`: where the time of a training step goes, to each kernel."""
