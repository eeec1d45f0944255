"""Total variation denoising, a generalised LASSO.

    min  ‖x - b‖₂² + η Σ |x(i+1) - x(i)|

After S. Boyd et al., Distributed optimization and statistical learning via the alternating direction method of
multipliers, 2011, section 6.4.1.

    python examples/solver/generalized_lasso.py
"""

import torch

import pwcf


def problem(n=80, eta=0.5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    b = torch.rand(n, 1, generator=generator).double().flatten()

    def objective(x):
        return (x - b).square().sum() + eta * x.diff().abs().sum()

    return objective, torch.ones(n, dtype=torch.float64), []


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    levels = 1 + int((solution.x.diff().abs() > 1e-4).sum())
    print(f"{levels} constant pieces")
    return solution


if __name__ == "__main__":
    main()
