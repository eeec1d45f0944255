"""The largest eigenvalue of a symmetric matrix, as a problem on the unit sphere.

    min  -x'Ax   s.t.  x'x = 1

After the sphere manifold of Manopt (N. Boumal, B. Mishra, P.-A. Absil, R. Sepulchre, 2014).

    python examples/solver/sphere.py
"""

import torch

import pwcf


def problem(n=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(n, n, generator=generator).double()
    A = (A + A.T) / 2
    start = torch.randn(n, generator=generator).double()

    def objective(x):
        return -x @ A @ x

    def sphere(x):
        return x @ x - 1

    return objective, start, [pwcf.eq(sphere)]


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    return solution


if __name__ == "__main__":
    main()
