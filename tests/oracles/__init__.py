"""Outside oracles: exact radii that know nothing of pwcf, and the instances they are exact for."""
