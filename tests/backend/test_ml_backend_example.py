"""The folder in the layout of Label Studio's ML-backend examples: complete, and its own test passes."""

import os
import re
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


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, what follows), lines that go on put together."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, rest in lines]


def test_image_holds_what_it_needs_tests_included_and_runs_as_a_user_who_may_write() -> None:
    steps = instructions()
    assert steps[0] == ("FROM", "python:3.11-slim-bookworm")
    copied = [path for word, rest in steps if word == "COPY" for path in rest.split()[:-1]]
    assert [path for path in copied if not (FOLDER / path).exists()] == []
    assert "." in copied  # all files, the tests among them
    ignored = (FOLDER / ".dockerignore").read_text(encoding="utf-8").split()
    assert not {"test_api.py", "model.py", "_wsgi.py", "requirements-test.txt", "wheels"} & set(ignored)
    installs = " ".join(rest for word, rest in steps if word == "RUN")
    named = set(re.findall(r"requirements[a-z-]*\.txt", installs))
    assert named == {"requirements.txt", "requirements-base.txt", "requirements-test.txt"}
    assert '[ "$TEST_ENV" = "true" ]' in installs
    assert ("ARG", "TEST_ENV=false") in steps
    users = re.findall(r"useradd --uid (\d+)", installs)
    assert [rest for word, rest in steps if word == "USER"] == users
    assert "install --directory --owner=evenhand /data" in installs
    words = [word for word, _ in steps]
    assert words.index("VOLUME") > words.index("USER")  # a volume takes over who owns its folder by then
    assert ("VOLUME", "/data") in steps
    (environment,) = (rest for word, rest in steps if word == "ENV")
    assert "MODEL_DIR=/data" in environment
    assert "--find-links wheels" in (FOLDER / "requirements.txt").read_text(encoding="utf-8")  # no index of ours


@pytest.mark.slow
@pytest.mark.parametrize("sdk", ["", "import harness.ml_backend_two; "], ids=["1.0.9", "as 2.x calls"])
def test_example_passes_its_own_test(tmp_path: Path, sdk: str) -> None:
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
        [sys.executable, "-c", f"{sdk}import sys, pytest; sys.exit(pytest.main({options}))"],
        cwd=FOLDER,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "4 passed" in done.stdout, done.stdout[-3000:]
