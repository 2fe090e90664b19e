"""Utilities: argument checks, atomic files, strict JSON, a timeline, and optional packages."""
