"""Samples of logs in tests/data/formats, each with what is to be read from it in its own first lines.

`#= llmbar` is the format, `#= ["judge", "first", "second", 1]` an answer as annotator, left, right and outcome, and
`#= langsmith refused: words of the refusal` stands where nothing may be read. What is no text has these lines in a file
of the same name with .answers. The logs themselves, without these lines, are unpacked into `SAMPLES`.
"""

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

_MARK, _REFUSED, _BESIDE = b"#= ", " refused: ", ".answers"
_KEPT = Path(__file__).resolve().parents[2] / "data" / "formats"
_ROOT = Path(tempfile.mkdtemp(prefix="evenhand-samples-"))
atexit.register(shutil.rmtree, _ROOT, ignore_errors=True)
SAMPLES = _ROOT / "data" / "formats"
SAMPLES.mkdir(parents=True)

#: By file: its format and answers; its format and the words of the refusal.
READ: dict[str, tuple[str, list[tuple[Any, ...]]]] = {}
REFUSED: dict[str, tuple[str, str]] = {}

for kept in sorted(_KEPT.iterdir()):
    lines = kept.read_bytes().splitlines(keepends=True)
    told = [line.removeprefix(_MARK).decode().strip() for line in lines if line.startswith(_MARK)]
    name = kept.name.removesuffix(_BESIDE)
    if name == kept.name:
        (SAMPLES / name).write_bytes(b"".join(line for line in lines if not line.startswith(_MARK)))
    if told and _REFUSED in told[0]:
        REFUSED[name] = (told[0].split(_REFUSED)[0], told[0].split(_REFUSED)[1])
    elif told:
        READ[name] = (told[0], [tuple(json.loads(answer)) for answer in told[1:]])
