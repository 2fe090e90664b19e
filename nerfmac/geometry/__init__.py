"""The vocabulary: cameras, lenses, rays, samples, cells, colour; one convention each."""
