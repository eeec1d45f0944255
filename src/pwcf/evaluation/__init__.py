"""evaluate(): a model, samples and a question in; verified answers with evidence out."""

from pwcf.evaluation.evaluate import default_batch, evaluate
from pwcf.evaluation.progress import EvaluationProgress
from pwcf.evaluation.run import Asked, Contribution, Run

__all__ = ["Asked", "Contribution", "EvaluationProgress", "Run", "default_batch", "evaluate"]
