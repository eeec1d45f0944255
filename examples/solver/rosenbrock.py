"""The nonsmooth Rosenbrock function under two constraints.

    min  8 |x1² - x2| + (1 - x1)²   s.t.  √2 x1 <= 1,  2 x2 <= 1

The solution (√2/2, 1/2) lies on the kink x2 = x1² and on both constraints. After F. E. Curtis, T. Mitchell,
M. L. Overton, A BFGS-SQP method for nonsmooth, nonconvex, constrained optimization, 2017.

    python examples/solver/rosenbrock.py
"""

import torch

import pwcf


def problem():
    def objective(x):
        return 8 * (x[0] ** 2 - x[1]).abs() + (1 - x[0]) ** 2

    def constraint(x):
        return torch.stack([2**0.5 * x[0] - 1, 2 * x[1] - 1])

    return objective, torch.ones(2, dtype=torch.float64), [pwcf.ineq(constraint)]


def main():
    solution = pwcf.minimize(*problem())
    print(solution.summary())
    print(f"x = {solution.x.tolist()}")
    return solution


if __name__ == "__main__":
    main()
