"""Models by name: Python callables, weights, exported programs, ONNX files, and the libraries people take them from."""

from pwcf.models.loading.fingerprint import code_fingerprint, fingerprint
from pwcf.models.loading.load import LoadedModel, list_kinds, load_model
from pwcf.models.loading.reached import syntax
from pwcf.models.loading.request import ModelError

__all__ = ["LoadedModel", "ModelError", "code_fingerprint", "fingerprint", "list_kinds", "load_model", "syntax"]
