"""Samplers, which select the sample positions along rays."""
