"""The gallery: what it shows, and the ablations among it."""
