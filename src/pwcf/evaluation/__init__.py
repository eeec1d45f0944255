"""evaluate(): a model, samples and a question in; verified answers with evidence out."""

from pwcf.evaluation.evaluate import evaluate
from pwcf.evaluation.run import Run

__all__ = ["Run", "evaluate"]
