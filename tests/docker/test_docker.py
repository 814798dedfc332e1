"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from evenhand.settings import TABLE

from harness import components
from harness.block_list import DOCKER, EVENHAND_ADDRESS, env_file
from harness.postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent.parent
SERVICE = ROOT / "backend" / "evenhand"
COMPOSE_FILES = ("compose.yaml", "compose.sqlite.yaml")
NOBODY = 65534


def tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def compose(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))
    return loaded


def evenhand_services(name: str) -> dict[str, dict[str, Any]]:
    return {
        service: definition
        for service, definition in compose(name)["services"].items()
        if "EVENHAND_IMAGE" in definition["image"] and service != "secrets"
    }


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_file_against_the_specification_is_valid(name: str) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DOCKER / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfile_under_hadolint_has_no_findings() -> None:
    done = subprocess.run([tool("hadolint"), str(DOCKER / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_variables_of_evenhand_are_known_to_settings(name: str) -> None:
    known = {setting.name for setting in TABLE} | {f"{setting.name}_FILE" for setting in TABLE if setting.secret}
    services = evenhand_services(name)
    assert services
    for definition in services.values():
        assert set(definition["environment"]) <= known


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_services_restart_report_health_and_have_limits(name: str) -> None:
    for service, definition in compose(name)["services"].items():
        assert definition["restart"] == ("no" if service == "secrets" else "unless-stopped"), service
        # Evenhand's web service has its health check in the image.
        assert service == "evenhand" or definition["healthcheck"]["test"], service
        assert re.fullmatch(r"\d+[mg]", definition["mem_limit"]), service
        assert 0 < definition["pids_limit"] <= 512, service


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_containers_are_locked_down(name: str) -> None:
    for service, definition in compose(name)["services"].items():
        assert definition["read_only"] is True, service
        assert definition["cap_drop"] == ["ALL"], service
        assert "cap_add" not in definition, service
        assert definition["security_opt"] == ["no-new-privileges:true"], service


PINNED = r"[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}"


def test_every_image_is_named_by_its_digest(tmp_path: Path) -> None:
    files = [DOCKER / name for name in ("Dockerfile", *COMPOSE_FILES, ".env.example")]
    ours = "evenhand:local"
    named = {
        image
        for file in files
        for image in re.findall(r"^FROM (\S+)|\w+_IMAGE(?::-|=)([^}\s]+)", file.read_text(), re.MULTILINE)
        for image in image
        if image and image != ours
    }
    assert len(named) == 3  # the same of each in all files
    assert all(re.fullmatch(PINNED, image) for image in named)


def test_images_script_renews_every_digest(tmp_path: Path) -> None:
    shutil.copytree(DOCKER, tmp_path / "docker")
    (tmp_path / "scripts").mkdir()
    script = Path(shutil.copy2(ROOT / "scripts" / "images.sh", tmp_path / "scripts"))
    fake = tmp_path / "engine"
    fake.write_text("#!/bin/sh\nprintf 'sha256:%064d' 7\n")
    fake.chmod(0o755)
    done = subprocess.run([script], env={**os.environ, "DOCKER": str(fake)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.findall(
        PINNED, "".join(path.read_text() for path in (tmp_path / "docker").glob("[.Dc]*") if path.is_file())
    )
    assert len(found) == 7
    assert {image.rpartition(":")[2] for image in found} == {f"{7:064d}"}
    fake.write_text("#!/bin/sh\necho no such tag\n")
    refused = subprocess.run([script], env={**os.environ, "DOCKER": str(fake)}, capture_output=True, text=True)
    assert (refused.returncode, "expected a digest" in refused.stderr) == (1, True)


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_ports_by_default_are_published_on_loopback_only(name: str) -> None:
    ports = [port for definition in compose(name)["services"].values() for port in definition.get("ports", [])]
    assert ports
    assert all(port.startswith("${BIND_ADDRESS:-127.0.0.1}:") for port in ports)


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_label_studio_reaches_evenhand_at_the_one_open_address(name: str) -> None:
    """Two shared networks would give `evenhand` a second address, which Label Studio would refuse."""
    loaded = compose(name)
    label_studio, evenhand = loaded["services"]["label-studio"], loaded["services"]["evenhand"]
    assert set(label_studio["networks"]) & set(evenhand["networks"]) == {"front"}
    assert evenhand["networks"]["front"]["ipv4_address"] == EVENHAND_ADDRESS
    pool = loaded["networks"]["front"]["ipam"]["config"][0]
    assert ipaddress.ip_address(EVENHAND_ADDRESS) in ipaddress.ip_network(pool["subnet"])
    assert ipaddress.ip_address(EVENHAND_ADDRESS) not in ipaddress.ip_network(pool["ip_range"])
    assert label_studio["env_file"] == ["label-studio.env"]


def test_compose_variables_all_occur_in_the_example_environment() -> None:
    used = {
        variable
        for name in COMPOSE_FILES
        for variable in re.findall(r"\$\{([A-Z_]+):-", (DOCKER / name).read_text(encoding="utf-8"))
    }
    assert used == set(env_file(DOCKER / ".env.example"))


def test_example_environment_secrets_are_empty() -> None:
    values = env_file(DOCKER / ".env.example")
    secret = {name for name in values if re.search("PASS|SECRET|API_KEY", name)}
    assert len(secret) >= 8
    assert {values[name] for name in secret} == {""}


LABEL_STUDIO_CHECK = """
import inspect, ipaddress, os, re, sys
sys.path.insert(0, os.path.join(sys.prefix, "lib", "python3.11", "site-packages", "label_studio"))
from django.conf import settings
settings.configure(USE_DEFAULT_BANNED_SUBNETS=False, USER_ADDITIONAL_BANNED_SUBNETS=sys.argv[1].split(","))
from core.utils import io
default = re.findall(r"'([0-9a-f.:]+/[0-9]+)'", inspect.getsource(io.validate_ip))
assert len(default) > 25, default
def blocked(ip):
    try:
        io.validate_ip(str(ip))
    except Exception:
        return True
    return False
assert not blocked(sys.argv[2])
for subnet in map(ipaddress.ip_network, default):
    for ip in (subnet[0], subnet[-1], subnet[subnet.num_addresses // 2]):
        assert blocked(ip), ip
for ip in ("192.168.251.2", "192.168.251.4", "192.168.251.1", "192.168.0.1", "127.0.0.1", "172.17.0.1"):
    assert blocked(ip), ip
print("\\n".join(default))
"""


@pytest.mark.labelstudio
def test_label_studio_block_list_opens_exactly_one_address(label_studio_program: Path) -> None:
    """Label Studio's own check, with the compose settings, blocks what it blocks by default minus one address."""
    banned = env_file(DOCKER / "label-studio.env")["USER_ADDITIONAL_BANNED_SUBNETS"]
    command = [str(label_studio_program.parent / "python"), "-c", LABEL_STUDIO_CHECK, banned, EVENHAND_ADDRESS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for version in (4, 6):
        default: list[Any] = [net for net in map(ipaddress.ip_network, done.stdout.split()) if net.version == version]
        ours: list[Any] = [net for net in map(ipaddress.ip_network, banned.split(",")) if net.version == version]
        opened = [ipaddress.ip_network(f"{EVENHAND_ADDRESS}/32")] if version == 4 else []
        assert list(ipaddress.collapse_addresses([*ours, *opened])) == list(ipaddress.collapse_addresses(default))


def make_secrets(folder: Path, **environment: str) -> dict[str, str]:
    for reader in ("database", "label-studio", "evenhand"):
        (folder / reader).mkdir(exist_ok=True)
    subprocess.run([sys.executable, str(DOCKER / "make_secrets.py"), str(folder)], check=True, env=environment)
    return {f"{path.parent.name}/{path.name}": path.read_text() for path in sorted(folder.glob("*/*"))}


def test_make_secrets_second_start_keeps_what_the_first_made(tmp_path: Path) -> None:
    first = make_secrets(tmp_path)
    assert make_secrets(tmp_path) == first
    assert len(first["evenhand/LABEL_STUDIO_API_KEY"]) == 40
    assert len(set(first.values())) == len(first)


def test_make_secrets_value_from_the_environment_takes_its_place(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    changed = make_secrets(tmp_path, BASIC_AUTH_PASS="it's $mine", EVENHAND_DATABASE_PASSWORD="p@ss/word")
    assert changed["evenhand/BASIC_AUTH_PASS"] == "it's $mine"
    assert changed["evenhand/DATABASE_URL"] == "postgresql://evenhand:p%40ss%2Fword@database:5432/evenhand"


def test_make_secrets_label_studio_file_survives_the_shell(tmp_path: Path) -> None:
    """Label Studio's entry point sources the file, so odd characters must come through unchanged."""
    made = make_secrets(tmp_path, LABEL_STUDIO_PASSWORD='a\'b "c" $HOME `id`')
    script = f". {shlex.quote(str(tmp_path / 'label-studio' / 'label-studio.env'))}; env -0"
    output = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout
    exported = dict(entry.split("=", 1) for entry in output.split("\0") if entry)
    assert exported["LABEL_STUDIO_PASSWORD"] == 'a\'b "c" $HOME `id`'
    assert exported["LABEL_STUDIO_USER_TOKEN"] == made["evenhand/LABEL_STUDIO_API_KEY"]
    assert exported["POSTGRE_PASSWORD"] == made["database/LABEL_STUDIO_DATABASE_PASSWORD"]


@pytest.mark.postgres
def test_initdb_script_makes_two_roles_that_cannot_see_each_other(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    make_secrets(tmp_path, EVENHAND_DATABASE_PASSWORD="quo'te")
    programs = components.postgres()
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PGHOST": str(postgres_server.folder),
        "POSTGRES_USER": "evenhand_admin",
        "SECRETS_DIR": str(tmp_path / "database"),
    }
    with psycopg.connect(f"host={postgres_server.folder} user=evenhand dbname=postgres") as connection:
        connection.execute("CREATE ROLE evenhand_admin SUPERUSER LOGIN")
    # The test server's own superuser is called evenhand, so the script's role of that name gets another one here.
    script = (
        (DOCKER / "initdb.sh")
        .read_text()
        .replace("ROLE evenhand ", "ROLE evenhand_app ")
        .replace("OWNER evenhand;", "OWNER evenhand_app;")
    )
    subprocess.run(["sh", "-c", script], check=True, env=environment, capture_output=True)
    address = f"host={postgres_server.folder}"
    with psycopg.connect(f"{address} user=evenhand_app dbname=evenhand") as connection:
        connection.execute("CREATE TABLE own (n int)")
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(f"{address} user=label_studio dbname=evenhand")


# The Dockerfile's steps, run without an engine.


def ignored(relative: str, rules: list[str]) -> bool:
    """Apply .dockerignore's rules to one file: the last rule that matches it or a folder above it decides."""
    decision = False
    parts = relative.split("/")
    above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for rule in rules:
        keep, pattern = rule.startswith("!"), rule.lstrip("!")
        if pattern.startswith("**/"):
            matches = any(fnmatchcase(part, pattern[3:]) for part in parts)
        else:
            matches = any(fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for name in above)
        if matches:
            decision = not keep
    return decision


def build_context(target: Path) -> None:
    """Copy what an engine would send: the project's files that .dockerignore lets through."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for path in sorted(ROOT.glob("*")):
        if path.name in {".venv", ".git", ".label-studio"}:
            continue
        for file in [path] if path.is_file() else (found for found in path.rglob("*") if found.is_file()):
            relative = file.relative_to(ROOT).as_posix()
            if not ignored(relative, rules):
                (target / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target / relative)


def instructions(stage: int) -> list[tuple[str, str]]:
    """Return the instructions of one stage as (name, arguments), continuation lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")] + [len(lines)]
    chosen = lines[starts[stage] : starts[stage + 1]]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in chosen]


def test_build_context_holds_sources_and_nothing_private(tmp_path: Path) -> None:
    build_context(tmp_path)
    top = {path.name for path in tmp_path.iterdir()}
    assert top == {"pyproject.toml", "README.md", "LICENSE", "requirements.lock", "fdr_core", "backend", "docker"}
    assert [path.name for path in (tmp_path / "docker").iterdir()] == ["make_secrets.py"]
    assert not list(tmp_path.rglob("*.pyc"))


def test_dockerfile_copies_only_what_the_context_holds(tmp_path: Path) -> None:
    build_context(tmp_path)
    copied = [
        source
        for stage in (0, 1)
        for name, arguments in instructions(stage)
        if name == "COPY" and "--from" not in arguments
        for source in [part for part in arguments.split() if not part.startswith("--")][:-1]
    ]
    assert copied
    assert [source for source in copied if not (tmp_path / source).exists()] == []


def test_dockerfile_runs_as_a_user_that_is_not_root() -> None:
    names = dict(instructions(1))
    assert names["USER"] == "10001:10001"
    assert names["ENTRYPOINT"] == '["evenhand"]'


def shared_python() -> str | None:
    """Return a Python 3.11 that an unprivileged user may start; root's own may lie in root's home."""
    for candidate in (os.path.realpath(sys.executable), "/usr/local/bin/python3.11", "/usr/bin/python3.11"):
        if (
            Path(candidate).exists()
            and subprocess.run(as_nobody([candidate, "-V"]), capture_output=True).returncode == 0
        ):
            return candidate
    return None


def as_nobody(command: list[str]) -> list[str]:
    """Wrap a command so that it runs without root's rights."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", *command]


@pytest.mark.slow
def test_dockerfile_build_steps_in_a_clean_tree_give_a_working_image(tmp_path: Path) -> None:
    """Every COPY and RUN of the build stage is executed, with the image's root moved into a temporary folder."""
    python = shared_python()
    if python is None:
        pytest.skip("no Python 3.11 that an unprivileged user may start; the build steps cannot be tried as one")
    root = Path("/tmp") / f"evenhand-image-{os.getpid()}"
    context = tmp_path / "context"
    try:
        (root / "bin").mkdir(parents=True)
        build_context(context)
        # The image has one `python` with pip; here pip comes from the test's environment.
        wrapper = f'#!/bin/sh\nif [ "$2" = pip ]; then exec {sys.executable} "$@"; fi\nexec {python} "$@"\n'
        (root / "bin" / "python").write_text(wrapper)
        (root / "bin" / "python").chmod(0o755)
        run_build_stage(root, context)
        check_image(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run_build_stage(root: Path, context: Path) -> None:
    environment = {**os.environ, "PATH": f"{root}/bin:/usr/bin:/bin"}
    work = root
    for name, arguments in instructions(0):
        if name == "WORKDIR":
            work = root / arguments.lstrip("/")
            work.mkdir(parents=True)
        elif name == "COPY":
            *sources, target = arguments.split()
            for source in sources:
                place = work / target / (source if target == "./" else "")
                copy = shutil.copytree if (context / source).is_dir() else shutil.copy2
                copy(context / source, place)
        elif name == "RUN":
            command = arguments.replace("/opt/evenhand", f"{root}/opt/evenhand")
            done = subprocess.run(["sh", "-c", command], cwd=work, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"RUN {command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        else:
            assert name in {"FROM", "ENV"}, f"the test does not know how to run {name}"


def check_image(root: Path) -> None:
    """An unprivileged user without a writable folder but MODEL_DIR starts the program, and its pages are there."""
    program = f"{root}/opt/evenhand/bin/evenhand"
    environment = {
        "PATH": f"{root}/opt/evenhand/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }
    done = subprocess.run(as_nobody([program, "--help"]), env=environment, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout
    assert "worker" in done.stdout
    installed = root / "opt" / "evenhand" / "lib" / "python3.11" / "site-packages" / "evenhand"
    for folder in ("store/migrations", "web/templates", "web/static"):
        expected = {
            path.relative_to(ROOT / "backend" / "evenhand")
            for path in (ROOT / "backend" / "evenhand" / folder).rglob("*")
            if path.is_file()
        }
        missing = [
            str(path) for path in expected if not (installed / path).exists() and "__pycache__" not in path.parts
        ]
        assert missing == []
