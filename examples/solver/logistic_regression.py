"""The regularisation path of l1 logistic regression: one problem for every C, all of them in one batch.

    min  ‖w‖₁ / C + Σ log(1 + exp(-y(i) X(i)'w))

After S. Laue, M. Mitterreiter, J. Giesen, GENO -- GENeric Optimization for classical machine learning, NeurIPS 2019.

    python examples/solver/logistic_regression.py
"""

import torch

import pwcf


def data(samples=100, features=20, seed=0):
    """Labels -1 and 1 that depend on the first three features, a tenth of them flipped."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(samples, features, generator=generator).double()
    flips = torch.where(torch.rand(samples, generator=generator) < 0.1, -1.0, 1.0)
    return X, flips * torch.sign(X[:, :3].sum(1))


def path(X, y, points=16):
    """C from the largest at which w = 0 is optimal, up to 10⁴ times that."""
    return 2 / (X.T @ y).abs().max() * torch.logspace(0, 4, points, dtype=torch.float64)


def problem(points=16, **sizes):
    X, y = data(**sizes)
    C = path(X, y, points)

    def objective(w, rows):
        loss = torch.nn.functional.softplus(-y * (w @ X.T)).sum(1)
        return w.abs().sum(1) / C[rows] + loss

    return objective, torch.zeros(points, X.shape[1], dtype=torch.float64), []


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    used = (solution.x.abs() > 1e-4).sum(1)
    print(f"features used from the smallest C to the largest: {used.tolist()}")
    return solution


if __name__ == "__main__":
    main()
