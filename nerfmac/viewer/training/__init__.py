"""Training in the viewer, in slices of work between pictures, and its curve."""
