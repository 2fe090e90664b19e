"""What every room uses: checks of arguments, whole files, strict JSON, a timeline, extras."""
