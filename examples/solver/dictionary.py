"""Orthogonal dictionary learning: one column of a dictionary, found from sparse mixtures of all of them.

    min  ‖q'Y‖₁ / m   s.t.  ‖q‖₂ = 1

Y = A X with A orthogonal and X sparse; q'Y is sparsest where q is a column of A up to its sign. A is the identity
here, which changes nothing for the solver: the answer is plus or minus a unit vector. After Y. Bai, Q. Jiang, J. Sun,
Subgradient descent learns orthogonal dictionaries, ICLR 2019.

    python examples/solver/dictionary.py
"""

import torch

import pwcf


def problem(n=30, sparsity=0.3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    m = 10 * n**2
    Y = torch.randn(n, m, generator=generator).double() * (torch.rand(n, m, generator=generator) <= sparsity)
    start = torch.randn(n, generator=generator).double()

    def objective(q):
        return (q @ Y).abs().sum() / m

    def sphere(q):
        return q @ q - 1

    return objective, start / start.norm(), [pwcf.eq(sphere)]


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    print(f"largest entry of q: {solution.x.abs().max():.6f}")
    return solution


if __name__ == "__main__":
    main()
