"""Smooth problems of Hock and Schittkowski with equality and inequality constraints.

W. Hock, K. Schittkowski, "Test examples for nonlinear programming codes", Lecture Notes in Economics
and Mathematical Systems 187, Springer (1981). The book writes g(x) >= 0; here the sign is turned.
"""

from pwcf.testproblems.hock_schittkowski import (
    hs1_to_38,
    hs39_to_66,
    hs68_to_81,
    hs83_to_99,
    hs100_to_109,
    hs110_to_119,
)

__all__ = ["hs1_to_38", "hs39_to_66", "hs68_to_81", "hs83_to_99", "hs100_to_109", "hs110_to_119"]
