#!/usr/bin/env bash
# Renews the three lock files: versions and hashes, no index addresses. Needs uv (`pip install uv`).
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
compile() { "$uv" pip compile --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet "$@"; }
with_sdk=(--override requirements/overrides.txt pyproject.toml requirements/sdk.in --extra sdk)
compile "${with_sdk[@]}" -o requirements.lock
compile "${with_sdk[@]}" --extra dev --extra plot --extra spark --extra peers --override requirements/peers-overrides.txt -c requirements.lock -o requirements-dev.lock
compile requirements/label-studio.in -o requirements-label-studio.lock
