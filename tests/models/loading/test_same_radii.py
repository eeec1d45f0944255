"""One network as a timm model, a Python callable, a torch.export program and an ONNX file: the same radii."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import pwcf
from pwcf.cli import main
from timm_here import timm_here

CALLABLE = """
import timm

def net():
    return timm.create_model("test_resnet", num_classes=7)
"""
SIZE, SAMPLES = 32, 5
MEAN, STD = [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]


@pytest.mark.filterwarnings("ignore")  # exporters warn of their own future
def test_all_forms_of_a_network_have_the_same_radii(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timm = timm_here()
    if importlib.util.find_spec("onnx2torch") is None:  # its own import wants torchvision, ours of it does not
        pytest.skip("onnx2torch is not installed")
    torch.manual_seed(0)
    net = timm.create_model("test_resnet", num_classes=7).eval()
    for module in net.modules():  # as after training, so that logits differ
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_var.uniform_(0.05, 0.2)
    images = torch.rand(SAMPLES, 3, SIZE, SIZE)
    with torch.no_grad():
        labels = net((images - 0.5) / 0.25).argmax(1)
    np.savez(tmp_path / "data.npz", images=images.numpy(), labels=labels.numpy())
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text(CALLABLE)
    example = torch.rand(2, 3, SIZE, SIZE)
    program = torch.export.export(net, (example,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    torch.export.save(program, tmp_path / "net.pt2")
    torch.onnx.export(
        net, (example,), str(tmp_path / "net.onnx"), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )
    weights = ["--weights", str(tmp_path / "net.safetensors")]
    forms = {
        "timm": ["--model", "timm:test_resnet", *weights],
        "callable": ["--model", f"{tmp_path}/net.py:net", *weights],
        "pt2": ["--model", f"{tmp_path}/net.pt2"],
        "onnx": ["--model", f"{tmp_path}/net.onnx"],
    }
    scaling = ["--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD))]
    radius = {}
    for name, words in forms.items():
        out = tmp_path / name
        asked = ["--data", str(tmp_path / "data.npz"), "--metric", "l2", "--budget", "100", "--threads", "1"]
        assert main(["run", *words, *scaling, *asked, "--out", str(out)]) == 0, capsys.readouterr().err
        run = pwcf.load_run(out)
        assert run.adversarial.all()
        radius[name] = run.radius
    assert (radius["callable"] > 0).all()
    for name, found in radius.items():
        torch.testing.assert_close(found, radius["callable"], rtol=1e-4, atol=0, msg=name)
