"""Argument checks, atomic files, strict JSON, a timeline, optional packages."""
