"""How the search for one row ended: one vocabulary for solvers, attacks and evaluations.

A status is a value with a sentence that says what happened and what to try.
"""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How the search for one row of a batch ended. ``status.sentence`` says what happened and what to try.

    Solvers use the members from CONVERGED to NONFINITE except ENDED and STATIONARY, which like the last four are for
    questions about a classifier.
    """

    CONVERGED = "converged"
    STALLED = "stalled"
    INFEASIBLE = "infeasible"
    MAX_ITERATIONS = "max-iterations"
    BUDGET = "budget"
    ENDED = "ended"
    STATIONARY = "stationary"
    TIME_LIMIT = "time-limit"
    TARGET = "target"
    STOPPED = "stopped"
    UNBOUNDED = "unbounded"
    NONFINITE = "nonfinite"
    FOUND = "found"
    NOT_FOUND = "not-found"
    CONTRADICTED = "contradicted"
    ALREADY_MISCLASSIFIED = "already-misclassified"

    @property
    def sentence(self) -> str:
        """What happened and what to try."""
        return _SENTENCES[self]

    @property
    def ok(self) -> bool:
        """True only for a row whose evidence supports its answer."""
        return self in (Status.CONVERGED, Status.TARGET, Status.FOUND, Status.ALREADY_MISCLASSIFIED)


_SENTENCES = {
    Status.CONVERGED: (
        "The evidence leaves no more than tol to gain. Of a minimisation: the point is feasible, and so say linear "
        "models and steps tried around it. Of a sample: enough independent searches ended at its radius."
    ),
    Status.STALLED: (
        "No further progress, but the evidence does not reach tol; the point may still be good. "
        "Try other starts, a smoother formulation, native bounds instead of a folded box, or a larger tol."
    ),
    Status.INFEASIBLE: (
        "No point within the feasibility tolerance was found; the least violating one is returned. "
        "Check that the constraints can be met together, or try other starts."
    ),
    Status.MAX_ITERATIONS: "max_iterations was reached first; raise it, or continue from the returned state.",
    Status.BUDGET: (
        "The budget was used up before the evidence reached tol; the answer stands, a better one may exist. "
        "Raise the budget, or continue from the returned state where there is one."
    ),
    Status.ENDED: (
        "The attack ended by itself, and nothing says that a longer or another search would not find a nearer point. "
        "Compare with attacks that tell, such as lmn."
    ),
    Status.STATIONARY: (
        "The attack's solver ended by its own test: around the point nothing is nearer, but another minimum may be. "
        "Give it more starts, or compare with lmn."
    ),
    Status.TIME_LIMIT: (
        "The time limit was reached before the evidence reached tol; the answer stands, a better one may exist. "
        "Raise time_limit, or continue from the returned state."
    ),
    Status.TARGET: (
        "A feasible point with an objective of at most the target was found, which ended the search. "
        "To go on to a minimum leave out the target, or continue from the returned state."
    ),
    Status.STOPPED: (
        "The callback ended the search before the evidence reached tol; the answer is the best point until then. "
        "Continue from the returned state to go on."
    ),
    Status.UNBOUNDED: (
        "The objective fell below any sensible value at feasible points; it seems unbounded below. "
        "Add bounds or a constraint, or clip the objective."
    ),
    Status.NONFINITE: (
        "NaN or inf at the start (of a classifier: in the logits of the image), or gradients that are not finite. "
        "Start elsewhere, or mend the model."
    ),
    Status.FOUND: "An adversarial point within eps, verified: the question is answered.",
    Status.NOT_FOUND: (
        "No adversarial point was found, which does not prove that there is none. "
        "Raise the budget, add attacks, or look at the warnings."
    ),
    Status.CONTRADICTED: (
        "The search saw the returned point misclassified; when it was verified, the model answered otherwise, so it "
        "does not count. Look for a limit on queries or for randomness in the model."
    ),
    Status.ALREADY_MISCLASSIFIED: (
        "The model is wrong on the sample as it is (of a targeted question: it says the wanted class): radius 0, "
        "nothing to be found."
    ),
}
