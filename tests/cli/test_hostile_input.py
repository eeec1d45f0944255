"""Input that is out to do harm, or just strange: one line that says what is wrong, and nothing else happens."""

import os
import socket
import sys
from pathlib import Path

import pytest

from pwcf._common.text import brief, csv_cell, printable
from pwcf.cli import main
from pwcf.cli.main import TRACEBACK
from runfolders import SAID, Place

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
CONFIGS = {
    "bomb.yaml": (BOMB + "metric: *i\n", "expected"),
    "bomb in a list.yaml": (BOMB.replace("a: &a", "attacks: &a").replace("i: &i", "budget: &i"), "expected"),
    "twice.yaml": ("metric: l2\nmetric: l1\n", "found 'metric' twice"),
    "integer.yaml": ("5: l2\n", "expected texts as names, found 5"),
    "null.yaml": ("null: l2\n", "expected texts as names, found None"),
    "list.yaml": ("? [a, b]\n: l2\n", "no YAML"),
    "deep.yaml": ("metric: " + "[" * 5000 + "]" * 5000, "no YAML"),
    "digits.yaml": ("budget: " + "9" * 5000, "no YAML"),
    "object.yaml": ("metric: !!python/object/apply:os.system ['touch trace']\n", "no YAML"),
    "twice.toml": ('metric = "l2"\nmetric = "l1"\n', "no TOML"),
    "deep.toml": ("metric = " + "[" * 5000 + "]" * 5000, "no TOML"),
    "digits.toml": ("budget = " + "9" * 5000, "no TOML"),
    "hexadecimal.toml": ("budget = 0x" + "f" * 5000, "budget: expected an integer > 0"),
    "nul.toml": ('data = "a\\u0000b.npz"', "data: expected a path, found one with a NUL"),
    "tol.toml": ("tol = inf", "tol: expected"),
    "escape.toml": ('metric = "\\u001b[2J"', "found '\\x1b[2J'"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_strange_configuration_is_one_short_line(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    content, expected = CONFIGS[name]
    monkeypatch.chdir(place.path)
    Path(name).write_text(content)
    assert main(["run", name, "--out", "out", "--model", "net.py:net", *(
        [] if "data" in content else ["--data", "data.npz"])]) == 2  # fmt: skip
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert len(said) < 1000
    assert TRACEBACK not in said
    assert not Path("trace").exists()


def test_a_pipe_is_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "run.toml")
    assert main(["run", str(tmp_path / "run.toml")]) == 2
    assert "expected a file, found a pipe" in capsys.readouterr().err


ENDS = {
    "in the model": "def net():\n    return ends\n\n\ndef ends(x):\n    import sys\n\n    sys.exit(0)\n",
    "in the factory": "import sys\n\n\ndef net():\n    sys.exit(0)\n",
    "on import": "import sys\n\nsys.exit(0)\n",
    "after a while": "import sys\n\nfrom good import net as good\n\nCALLS = []\n\n\ndef net():\n    inner = good()\n\n"
    "    def ends(x):\n        CALLS.append(1)\n        return inner(x) if len(CALLS) < 20 else sys.exit(0)\n\n"
    "    return ends\n",
}


@pytest.mark.parametrize("where", ENDS)
def test_a_model_that_ends_the_process_is_no_success(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(place.path), *sys.path])
    (place.path / "net.py").rename(place.path / "good.py")
    (place.path / "net.py").write_text(ENDS[where])
    assert place.run("out", **SAID) == 2
    said = capsys.readouterr().err
    assert "exit" in said.lower()
    assert said.count("\n") == 1
    sys.modules.pop("good", None)


def test_names_do_not_steer_the_terminal(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    strange = place.path / "\x1b[2Jnet\u202e.py"
    (place.path / "net.py").rename(strange)
    assert place.run("out", model=f"{strange}:net", **SAID) == 0
    assert main(["show", str(place.path / "out")]) == 0
    assert main(["run", "--metric", "\x1b]0;title\x07"]) == 2
    captured = capsys.readouterr()
    for said in (captured.out, captured.err):
        assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_texts_from_elsewhere() -> None:
    assert printable("a\x1b[1mü\u202e\n") == "a\\x1b[1mü\\u202e\n"
    assert [csv_cell(one) for one in ("=cmd|x", "+1", "@a", "-a", "l2", -1.5)] == [
        "'=cmd|x", "'+1", "'@a", "'-a", "l2", -1.5,
    ]  # fmt: skip
    nested: list[object] = []
    for _ in range(50):
        nested = [nested] * 50
    for value in (nested, "a" * 10**6, 10**5000, list(range(10**6)), {i: i for i in range(10**5)}):
        assert len(brief(value)) < 400


def test_a_port_that_never_answers_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("pwcf.runs.ray_engine.ANSWER_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert place.run("out", engine="ray", address=address, **SAID) == 2
    assert "takes connections but does not answer" in capsys.readouterr().err
