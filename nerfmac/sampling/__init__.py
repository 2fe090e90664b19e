"""Samplers: they select the sample positions along rays."""
