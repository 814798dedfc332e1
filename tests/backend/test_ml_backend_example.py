"""The folder in the layout of Label Studio's ML-backend examples: complete, and its own test passes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "label-studio-ml-backend"


def test_example_has_the_files_of_a_label_studio_backend() -> None:
    names = {path.name for path in FOLDER.iterdir()}
    expected = {
        "Dockerfile",
        "docker-compose.yml",
        "README.md",
        "requirements.txt",
        "requirements-test.txt",
        ".dockerignore",
        "_wsgi.py",
        "model.py",
        "test_api.py",
    }
    assert expected <= names


def test_example_compose_file_runs_server_and_worker_on_one_store() -> None:
    services = yaml.safe_load((FOLDER / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert services["worker"]["command"] == ["evenhand", "worker"]
    assert services["worker"]["volumes"] == services["evenhand"]["volumes"] == ["data:/data"]
    assert services["evenhand"]["ports"] == ["9090:9090"]


@pytest.mark.slow
def test_example_passes_its_own_test_under_the_installed_sdk(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MODEL_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    environment.pop("DATABASE_URL", None)
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "-c",
        os.devnull,
        str(FOLDER / "test_api.py"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=FOLDER, env=environment, capture_output=True, text=True
    )
    assert "4 passed" in done.stdout, done.stdout[-3000:]
