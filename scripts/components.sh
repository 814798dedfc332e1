#!/usr/bin/env bash
# Makes sure that the tests find PostgreSQL, Chromium and Java: installs them when run as root, else says what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

has_chromium() { [ -n "$(.venv/bin/python harness/components.py chromium)" ]; }
has_postgres() { [ -n "$(.venv/bin/python harness/components.py postgres)" ]; }
has_java() { [ -n "$(.venv/bin/python harness/components.py java)" ]; }

apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  echo "Installing $* with apt-get"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } ||
    echo "apt-get could not install $*" >&2
}

has_postgres || apt_install postgresql
has_chromium || apt_install chromium
has_java || apt_install default-jre-headless
# Where the distribution has no plain Chromium package (Ubuntu ships a snap), Playwright's own build serves.
has_chromium || .venv/bin/playwright install chromium || true

missing=()
has_postgres || missing+=("PostgreSQL server programs (Debian, Ubuntu: apt-get install postgresql)")
has_chromium || missing+=("Chromium (Debian: apt-get install chromium; or .venv/bin/playwright install chromium)")
has_java || missing+=("Java 17 or newer, for Spark (Debian, Ubuntu: apt-get install default-jre-headless)")
[ ${#missing[@]} -eq 0 ] && exit 0
printf 'Missing for the full test run: %s\n' "${missing[@]}" >&2
case "${CI:-}" in
  1 | true | yes) exit 1 ;;
  *) echo "The tests that need it are skipped; with CI=true they fail." >&2 ;;
esac
