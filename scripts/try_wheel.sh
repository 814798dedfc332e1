#!/usr/bin/env bash
# Uses the installed package as a newcomer does, away from the source: simulate, doctor, analyze, gate.
set -euo pipefail
cd "$(mktemp -d)"
evenhand simulate crowd.csv --seed 1
evenhand doctor crowd.csv
evenhand analyze crowd.csv --out report
test -s report/report.html
python -c "from fdr_core import Comparisons, detect; print(detect(Comparisons.from_file('crowd.csv')))"
