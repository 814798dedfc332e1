"""Files of answers, told apart by name or content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fdr_core import Comparisons, InputError
from fdr_core.inputs.registry import detect_format


def load_comparisons(
    path: Path, *, fields: Mapping[str, Any] | None = None, reading: Mapping[str, Any] | None = None
) -> Comparisons:
    """Read answers of any known format; `fields` say how a Label Studio export is read, `reading` how a file is."""
    given = {name: value for name, value in (fields or {}).items() if value}
    options = dict(reading or {})
    if not given:
        return Comparisons.from_file(path, **options)
    recognised = detect_format(path, limits=options.get("limits"))
    if recognised.format not in ("label-studio", "label-studio-min") or options.get("mapping"):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{path} is not a Label Studio export; {names} applies to exports only; leave it out")
    return Comparisons.from_label_studio(path, **given)
