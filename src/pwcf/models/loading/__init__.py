"""Models by name: Python callables, weights, exported programs, ONNX files, and the libraries people take them from."""

from pwcf.models.loading.errors import ModelError
from pwcf.models.loading.fingerprint import code_fingerprint
from pwcf.models.loading.kinds import list_kinds
from pwcf.models.loading.load import LoadedModel, load_model

__all__ = ["LoadedModel", "ModelError", "code_fingerprint", "list_kinds", "load_model"]
