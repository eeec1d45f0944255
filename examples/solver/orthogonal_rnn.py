"""A recurrent network with an orthogonal recurrence that reads images row by row.

    min  cross entropy   s.t.  W'W = I,   W the hidden-to-hidden weights

The constraints are folded into one, ‖W'W - I‖ <= 0. After M. Lezcano-Casado, D. Martínez-Rubio, Cheap orthogonal
constraints in neural networks, ICML 2019, with 100 images of Fashion-MNIST at half their resolution.

    python examples/solver/orthogonal_rnn.py
"""

import torch
from torch import nn

import pwcf


class RowReader(nn.Module):
    """(b, rows, columns) images -> (b, 10) logits, one image row a step."""

    def __init__(self, columns, hidden):
        super().__init__()
        self.rnn = nn.RNN(columns, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, images):
        return self.head(self.rnn(images)[0][:, -1])


def problem(images=100, hidden=16, seed=0):
    torch.manual_seed(seed)
    x, labels = pwcf.zoo.load_images()
    x, labels = nn.functional.avg_pool2d(x[:images], 2).squeeze(1).double(), labels[:images]
    model = RowReader(x.shape[2], hidden).double()

    def objective(model):
        return nn.functional.cross_entropy(model(x), labels)

    def orthogonal(model):
        W = model.rnn.weight_hh_l0
        return W.T @ W - torch.eye(hidden, dtype=torch.float64)

    return objective, model, [pwcf.eq(orthogonal, fold=True)]


def main(target=1e-3, **sizes):
    objective, model, constraints = problem(**sizes)
    # Full BFGS needs fewer iterations than L-BFGS, which is the default for this many variables.
    solution = pwcf.minimize(objective, model, constraints, target=target, feasibility=1e-4, hessian="bfgs")
    print(solution.summary())
    model.load_state_dict(solution.x)
    return solution


if __name__ == "__main__":
    main()
