"""evaluate(): a model, samples and a question in; verified answers with evidence out."""

from pwcf.evaluation.evaluate import default_batch, evaluate
from pwcf.evaluation.run import Contribution, Run

__all__ = ["Contribution", "Run", "default_batch", "evaluate"]
