"""The forms a model can be named in."""

from __future__ import annotations

from pathlib import Path

from pwcf.models.loading.errors import ModelError

# Named by a prefix; each is loaded by the module of this package beside it, imported only when it is asked for.
LIBRARIES = {
    "timm": "timm_models",
    "torchvision": "torchvision_models",
    "hf": "hf_models",
    "robustbench": "robustbench_models",
    "zoo": "zoo_models",
}
# Named by the ending of a file.
FILES = {".pt2": "exported", ".onnx": "onnx_file"}
FILES |= dict.fromkeys((".pt", ".pth", ".safetensors", ".ckpt", ".bin", ".pkl", ".pickle"), "refused")
PYTHON = "python_code"


def list_kinds() -> list[tuple[str, str]]:
    """(form, what it is in one line), for help texts."""
    return [
        ("package.module:callable", "a module, a function of images to logits, or a factory without arguments"),
        ("path/to/file.py:callable", "the same, from a file; with --weights its state dict is loaded"),
        ("zoo:NAME", "a small network that comes with pwcf (pwcf zoo), or with --weights FILE its architecture"),
        ("timm:NAME", "a pretrained model of timm, or with --weights FILE one of its architectures"),
        ("torchvision:NAME", "a pretrained model of torchvision, or with --weights FILE one of its architectures"),
        ("hf:NAME", "an image classifier of transformers, from the Hugging Face hub or a folder"),
        ("robustbench:[DATASET/THREAT/]NAME", "a model of RobustBench, for cifar10/Linf unless said otherwise"),
        ("FILE.pt2", "a program saved by torch.export.save"),
        ("FILE.onnx", "an ONNX model, turned into PyTorch so that gradients flow"),
    ]


def place_of(spec: str) -> tuple[str, str]:
    """(which module of this package loads it, what the spec says behind its prefix)."""
    prefix, colon, rest = spec.partition(":")
    ending = Path(spec).suffix.lower()
    if colon and prefix in LIBRARIES:
        if not rest:
            raise ModelError(f"model {spec}: expected a name behind {prefix}:, found none; write {prefix}:NAME")
        return LIBRARIES[prefix], rest
    if ending in FILES:
        return FILES[ending], spec
    if colon:
        return PYTHON, spec
    if ending == ".py":
        raise ModelError(f"model {spec}: expected what to take from the file, found none; write {spec}:callable")
    forms = ", ".join(form for form, _ in list_kinds())
    raise ModelError(f"model: expected one of {forms}, found {spec!r}; name the model in one of these forms")
