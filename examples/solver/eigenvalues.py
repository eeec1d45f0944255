"""Static output feedback: slow the oscillations of a linear system down and damp them.

    min  max Im λ(A + BXC)   s.t.  max Re λ(A + BXC) <= -margin,   X a p × m matrix

A is nearly skew-symmetric: it oscillates with hardly any damping. Eigenvalues of a nonsymmetric matrix are neither
convex nor Lipschitz in X. After example 4 of GRANSO (T. Mitchell), with random matrices.

    python examples/solver/eigenvalues.py
"""

import torch

import pwcf


def problem(n=20, p=10, m=10, margin=0.1, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def gaussian(rows, columns):
        return torch.randn(rows, columns, generator=generator).double() / n**0.5

    S, B, C = gaussian(n, n), gaussian(n, p), gaussian(m, n)
    A = 2 * (S - S.T) + 0.2 * gaussian(n, n)

    def objective_and_constraint(v):
        eigenvalues = torch.linalg.eigvals(A + B @ v["X"] @ C)
        return eigenvalues.imag.amax(), eigenvalues.real.amax() + margin

    # pwcf.ineq() without a function: its values are what the objective returns second.
    return objective_and_constraint, {"X": torch.zeros(p, m, dtype=torch.float64)}, [pwcf.ineq()]


def main(**sizes):
    solution = pwcf.minimize(*problem(**sizes))
    print(solution.summary())
    return solution


if __name__ == "__main__":
    main()
