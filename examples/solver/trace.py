"""The leading eigenspace of a symmetric matrix, as a problem on the Stiefel manifold.

    min  -tr(V'AV)   s.t.  V'V = I,   V an n × d matrix

The optimum is minus the sum of the d largest eigenvalues. After E. Kokiopoulou, J. Chen, Y. Saad, Trace optimization
and eigenproblems in dimension reduction methods, 2011.

    python examples/solver/trace.py
"""

import torch

import pwcf


def problem(n=5, d=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(n, n, generator=generator).double()
    A = (A + A.T) / 2
    start = torch.randn(n, d, generator=generator).double()

    def objective(v):
        return -torch.trace(v["V"].T @ A @ v["V"])

    def orthonormal(v):
        return v["V"].T @ v["V"] - torch.eye(d, dtype=torch.float64)

    return objective, {"V": start}, [pwcf.eq(orthonormal)]


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    return solution


if __name__ == "__main__":
    main()
