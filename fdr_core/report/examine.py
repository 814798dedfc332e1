"""What a file of answers can and cannot support, and what would help, before anybody is judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fdr_core import least_evidence
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import Audit
from fdr_core.comparisons import Comparisons
from fdr_core.inputs.formats import Recognised, recognised_as
from fdr_core.inputs.registry import FORMATS, detect_format, own_columns
from fdr_core.inputs.sanity import repeats
from fdr_core.inputs.source import Limits, Source
from fdr_core.judges.both_orders import both_orders


@dataclass(frozen=True)
class Examination:
    """
    What a file was recognised as, and what its answers allow.

    Attributes
    ----------
    recognised : Recognised
        Format and columns.
    comparisons, audit : Comparisons, Audit or None
        The answers, and the audit that every command judges by; None where the format is refused.
    can, cannot, helps : tuple of str
        Whole sentences: what the data supports, what it does not, what would help.
    """

    recognised: Recognised
    comparisons: Comparisons | None
    audit: Audit | None
    can: tuple[str, ...]
    cannot: tuple[str, ...]
    helps: tuple[str, ...]

    @property
    def can_judge(self) -> bool:
        """Whether anybody can be judged, if not yet."""
        return self.audit is not None and not self.audit.is_refusal


def examine(path: str | Path, *, sides: str = "audit", limits: Limits | None = None, **reading: Any) -> Examination:
    """
    Read a file and say what it can be used for.

    Parameters
    ----------
    path : str or Path
        A file of any format of the registry.
    sides : str
        As in `detect`.
    limits : Limits, optional
        The largest data to take into memory.
    reading
        How it is read; see `Comparisons.from_file`.

    Raises
    ------
    InputError
        Where the file cannot be read or no format has its columns.
    """
    source = Source(path, limits=limits)
    recognised = _recognised(source, reading.get("format", "auto"), reading.get("mapping"))
    if recognised.refusal:
        return Examination(recognised, None, None, recognised.supports, recognised.lacks, (recognised.refusal,))
    comparisons = Comparisons.from_file(source, **reading)
    audited = AnswerTable.of(comparisons).audited(sides=sides)
    can, cannot, helps = list(recognised.supports), list(recognised.lacks), list(audited.remedies)
    if n_swapped := sum(one.pairs for one in both_orders(comparisons)):
        can.append(f"Shown to the same annotator in both orders: {n_swapped:,} pairs.")
    (cannot if audited.how in ("none", "sides fixed") else can).extend(audited.reasons)
    cannot += [f"Note: {sentence}." for sentence in repeats(comparisons)]
    few = int((np.bincount(comparisons.annotator) < least_evidence.UNITS).sum())
    if few:
        cannot.append(
            f"Annotators with fewer than {least_evidence.UNITS} answers: {few:,} of {comparisons.n_annotators:,}."
        )
        helps.append(f"At least {least_evidence.UNITS} answers are needed from an annotator, twenty for a mild lean.")
    return Examination(recognised, comparisons, audited, tuple(can), tuple(cannot), tuple(helps))


def _recognised(source: Source, format: str, mapping: Mapping[str, str] | None) -> Recognised:
    """The format asked for, or recognised; of a mapped table what the map says."""
    if mapping:
        used = {**own_columns(source.names, mapping), **{theirs: ours for ours, theirs in mapping.items()}}
        unused = tuple(name for name in source.names if name not in used)
        return Recognised("columns", "a table read by --map", source.kind, used, unused, (), ())
    return detect_format(source) if format == "auto" else recognised_as(FORMATS[format], source)
