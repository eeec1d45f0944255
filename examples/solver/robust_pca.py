"""Robust principal components: a matrix as the sum of one of low rank and a sparse one.

    min  ‖M‖_nuc + η ‖S‖₁   s.t.  M + S = Y

After X. Yi, D. Park, Y. Chen, C. Caramanis, Fast algorithms for robust PCA via gradient descent, NeurIPS 2016.

    python examples/solver/robust_pca.py
"""

import torch

import pwcf


def problem(rows=3, columns=4, eta=0.05, seed=1):
    generator = torch.Generator().manual_seed(seed)
    Y = torch.randn(rows, columns, generator=generator).double()

    def objective(v):
        return torch.linalg.svdvals(v["M"]).sum() + eta * v["S"].abs().sum()

    def parts(v):
        return v["M"] + v["S"] - Y

    start = {"M": torch.full_like(Y, 0.2), "S": torch.full_like(Y, 0.2)}
    return objective, start, [pwcf.eq(parts)]


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    print(f"singular values of M: {[round(value, 4) for value in torch.linalg.svdvals(solution.x['M']).tolist()]}")
    return solution


if __name__ == "__main__":
    main()
