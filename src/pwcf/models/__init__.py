"""Classifiers: a logits function with bounds, its passes counted, its set-up checked."""

from pwcf.models.checks import ENOUGH, check_inputs, count_classes, warnings_about
from pwcf.models.classifier import Classifier, CountedClassifier, Passes

__all__ = ["ENOUGH", "Classifier", "CountedClassifier", "Passes", "check_inputs", "count_classes", "warnings_about"]
