#!/usr/bin/env bash
# Renews the three lock files: versions and hashes, no index addresses. Needs uv (`pip install uv`).
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
compile() { "$uv" pip compile --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet "$@"; }
# `make run` installs all the service may use: server, the paper's solver, and what the SDK's own server needs.
with_service=(--override requirements/overrides.txt pyproject.toml requirements/sdk.in --extra server --extra files --extra paper --extra sdk)
compile "${with_service[@]}" -o requirements.lock
compile "${with_service[@]}" --extra dev --extra docs --extra plot --extra spark --extra peers --override requirements/peers-overrides.txt -c requirements.lock -o requirements-dev.lock
compile requirements/label-studio.in -o requirements-label-studio.lock
