"""A feasibility problem: any point that satisfies three nonlinear inequalities. The objective is constant.

    (y + x²)² + 0.1 y² <= 1,   y <= exp(-x) - 3,   y <= x - 4

From the documentation of MATLAB's Optimization Toolbox ("Solve Nonlinear Feasibility Problem"). ``offset`` is the 3 of
the second inequality; PyGRANSO's example has -3 there, which makes that inequality idle.

    python examples/solver/feasibility.py
"""

import torch

import pwcf


def problem(offset=3.0):
    def objective(v):
        return 0 * v["x"]

    def constraints(v):
        x, y = v["x"], v["y"]
        return torch.stack([(y + x**2) ** 2 + 0.1 * y**2 - 1, y - torch.exp(-x) + offset, y - x + 4])

    zero = torch.zeros((), dtype=torch.float64)
    return objective, {"x": zero, "y": zero}, [pwcf.ineq(constraints)]


def main():
    solution = pwcf.minimize(*problem())
    print(solution.summary())
    print(f"x = {solution.x['x']:.4f}, y = {solution.x['y']:.4f}")
    return solution


if __name__ == "__main__":
    main()
