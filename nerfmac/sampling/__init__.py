"""Samplers that select sample positions along rays."""
