"""The archive of an exported program, written anew with nothing in it that torch.export.load would run.

torch.export.load unpickles the sample inputs, unpickles weights that say so, loads compiled libraries, and executes
guards, as the file wants it. So the archive it gets is not the file, but a copy of the parts that are data: raw tensors
and the description of the graph, the latter checked. What cannot be left out is refused.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from pwcf.models.loading.errors import ModelError
from pwcf.models.loading.exported_graph import check_plain, rows_taken

_PROGRAM = "models/model.json"
_TENSORS = {  # the description of tensors: how the files with their numbers are called
    "data/weights/model_weights_config.json": ("data/weights/", re.compile(r"weight_\d+")),
    "data/constants/model_constants_config.json": ("data/constants/", re.compile(r"tensor_\d+")),
}
_AS_IT_IS = ("archive_format", "archive_version", ".data/version", "byteorder")
_SAMPLES = "data/sample_inputs/model.pt"


def clean_archive(path: Path) -> tuple[io.BytesIO, int | None]:
    """(an archive for torch.export.load, how many rows its batches must have or None for any)."""
    try:
        parts = _read(path)
        if _PROGRAM not in parts or any(name not in parts for name in _TENSORS):
            raise ModelError(
                f"model {path}: expected a program with raw weights as torch.export.save of torch 2.9 and later writes "
                "it, found another archive; export it again"
            )
        program = json.loads(parts[_PROGRAM])
        check_plain(program, str(path))
        rows = rows_taken(program, str(path))
        program["guards_code"] = []  # Python that torch would execute had it samples; shapes are checked without
        program["verifiers"] = ["TRAINING"]  # torch's own check of the operators, which a file could do without
        clean = {name: parts[name] for name in _AS_IT_IS if name in parts}
        clean |= {_PROGRAM: _dumped(program), _SAMPLES: b""}  # sample inputs are pickled, and nobody needs them
        for described, (folder, pattern) in _TENSORS.items():
            config = json.loads(parts[described])
            check_plain(config, str(path))
            names = _tensor_files(config, pattern, path)
            clean |= {described: _dumped(config), **{folder + name: parts[folder + name] for name in names}}
    except (zipfile.BadZipFile, KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise ModelError(
            f"model {path}: expected a program saved by torch.export.save, found something else "
            f"({type(error).__name__}: {error}); export it again"
        ) from error
    return _written(clean), rows


def _read(path: Path) -> dict[str, bytes]:
    """Every file in the archive by its name below the one folder all of them are in."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _tensor_files(config: Any, pattern: re.Pattern[str], path: Path) -> set[str]:
    names = set()
    for tensor, described in config["config"].items():
        name = described["path_name"]
        if described["use_pickle"] is not False or not pattern.fullmatch(name):
            raise ModelError(
                f"model {path}: expected plain tensors, found {tensor} as a pickled object, which is never run; "
                "export the model without such objects"
            )
        names.add(name)
    return names


def _dumped(program: Any) -> bytes:
    # Written anew, so that what torch reads is what was checked, also where a file has the same key twice.
    return json.dumps(_on_cpu(program)).encode()


def _on_cpu(part: Any) -> Any:
    """The same with every device the CPU: a program made on a GPU is read on any machine, and moved afterwards."""
    if isinstance(part, dict):
        places = ("device", "as_device")
        return {key: {"type": "cpu", "index": None} if key in places else _on_cpu(one) for key, one in part.items()}
    return [_on_cpu(one) for one in part] if isinstance(part, list) else part


def _written(parts: dict[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in parts.items():
            file.writestr(f"model/{name}", content)
    archive.seek(0)
    return archive
