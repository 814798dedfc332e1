"""What a list of flags promises, in one plain sentence per design, with the technical name behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from fdr_core.audit import FEW_COINS, Audit
from fdr_core.paper.knockoff_lbi import KnockoffLBI


class Guarantee(str):
    """Reads as "kind: sentence"; the parts are ``kind`` (technical) and ``sentence`` (for people)."""

    kind: str
    sentence: str

    def __new__(cls, kind: str, sentence: str) -> Guarantee:
        """Join the two parts."""
        guarantee = super().__new__(cls, f"{kind}: {sentence}")
        guarantee.kind, guarantee.sentence = kind, sentence
        return guarantee

    def adding(self, sentence: str) -> Guarantee:
        """The same with another sentence at its end; "" adds none."""
        return Guarantee(self.kind, f"{self.sentence} {sentence}") if sentence else self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str's own is narrower
        """Let copies and pickles keep the parts."""
        return self.kind, self.sentence


NOBODY = Guarantee("nothing claimed", "Nobody was judged, so nobody is flagged; the audit says why.")
FORCED = Guarantee(
    "nothing proven (sides not random)",
    "Coin flips were used although the audit does not support them, so nothing is promised about this list.",
)
#: Sides that a recorded seed gives again; sides that chance is said, or seems, to have decided; and all other designs.
PROVEN, MEASURED = "FDR, proven", "FDR, measured"
PROVEN_IF = f"{PROVEN} if the sides were assigned by chance"
#: What the audit tests, as figures name it.
_TESTED = "sides_p_by_"


@dataclass(frozen=True)
class _Basis:
    """Why a rate holds in one design."""

    kind: str
    because: str


#: Of the exact test, by how annotators are tested.
EXACT = {
    "own coins": _Basis(PROVEN, "proven for this design"),
    "both orders": _Basis(PROVEN, "proven for this design, pairs in both orders,"),
    "shared coins": _Basis(MEASURED, "checked by simulation, because annotators saw the same order"),
    "sides fixed": _Basis(
        MEASURED,
        "checked by simulation, with a model of judging, because no coin decided the sides of this design: a flag says "
        "who leans more than the others",
    ),
}


def guarantee_of_exact(audit: Audit, q: float) -> Guarantee:
    """Which guarantee holds for the list of the exact tests."""
    return NOBODY if audit.how == "none" else _guarantee(audit, q, _of_exact)


def guarantee_of_lbi(audit: Audit, q: float, lbi: KnockoffLBI) -> Guarantee:
    """Which guarantee holds for the list of knockoff LBI."""
    return NOBODY if audit.construction == "none" else _guarantee(audit, q, partial(_of_lbi, lbi=lbi))


def _guarantee(audit: Audit, q: float, basis_of: Callable[[Audit], _Basis]) -> Guarantee:
    if audit.figures.get("forced"):
        return FORCED
    basis = basis_of(audit)
    if basis.kind == "modified FDR":
        return Guarantee(basis.kind, f"{_modified(q)}; {basis.because}.")
    few = audit.shares_coins and audit.figures["coins"] < FEW_COINS
    caution = f" Only {audit.figures['coins']} coins decided the sides for everybody: take care." if few else ""
    return Guarantee(basis.kind, f"{plain_rate(q)}; {basis.because}.{caution}")


def plain_rate(q: float) -> str:
    """The target error rate as people say it."""
    share = Fraction(q).limit_denominator(100)
    told = f"{share.numerator} in {share.denominator}" if share else f"{100 * q:g} in 100"
    verb = "is" if share.numerator == 1 else "are"
    return f"Of the entries on such lists at most about {told} {verb} wrong, on average over many lists"


def _modified(q: float) -> str:
    return (
        f"{plain_rate(q)}, counted as if {1 / q:.0f} right entries were added to every list; for short lists the share "
        "of wrong entries can be higher"
    )


def has_proof(audit: Audit) -> bool:
    """Whether the tests of honest annotators are independent of each other and exact if chance decided the sides."""
    return audit.how != "none" and _of_exact(audit).kind in (PROVEN, PROVEN_IF)


def condition(audit: Audit) -> str:
    """What a proof rests on: nothing where the coins' seed gives every side again, else why they are believed."""
    figures = audit.figures
    if figures["drawn_by_seed"] == 1:
        return ""
    told = "if the sides were assigned by chance"
    if audit.how == "both orders":
        told = "if chance decided which of them came first, or that does not matter"
    if figures.get("stated_random"):
        return f"{told}, as the owner states"
    tested = ", ".join(name.removeprefix(_TESTED).replace("_", " ") for name in figures if name.startswith(_TESTED))
    return f"{told}; " + (f"tests by {tested} do not contradict it" if tested else "the data cannot tell")


def _on_condition(basis: _Basis, audit: Audit) -> _Basis:
    """The same basis with its condition, where a proof has one."""
    told = condition(audit)
    return _Basis(PROVEN_IF, f"{basis.because} {told}") if told and basis.kind == PROVEN else basis


def _of_exact(audit: Audit) -> _Basis:
    """Of the exact tests: the theorem for own coins asks that nobody shares any."""
    if audit.figures["coin_source"] == "guessed":
        return _Basis(MEASURED, "checked by simulation, because which answers shared a coin is guessed from a column")
    shared = float(audit.figures["shared_answers"])
    if audit.how == "own coins" and shared > 0:
        few = "less than 1 %" if shared < 0.01 else f"{100 * shared:.0f} %"
        return _Basis(
            MEASURED, f"checked by simulation, because {few} of the answers stand under coins that several people met"
        )
    return _on_condition(EXACT[audit.how], audit)


def _of_lbi(audit: Audit, lbi: KnockoffLBI) -> _Basis:
    """Of knockoff LBI: e-values and a single draw have a theorem, the majority of draws has none."""
    is_proven = lbi.aggregate == "evalues" or lbi.draws == 1
    caveat = _caveat(audit, lbi)
    if not is_proven:
        return _Basis(
            MEASURED, f"the list holds those whom most draws of knockoff LBI select; checked by simulation{caveat}"
        )
    if audit.construction == "flip" and audit.shares_coins:
        return _Basis(MEASURED, f"checked by simulation{caveat}")
    if audit.construction == "paper" and lbi.variance_used == "two-pass":
        return _Basis(MEASURED, f"checked by simulation{caveat}")
    if lbi.cut == "knockoff" and lbi.aggregate != "evalues":
        return _Basis("modified FDR", f"proven for knockoff LBI{caveat}")
    proven = _Basis(PROVEN, f"proven for knockoff LBI{caveat}")
    return _on_condition(proven, audit) if audit.construction == "flip" else proven


def _caveat(audit: Audit, lbi: KnockoffLBI) -> str:
    if audit.construction == "paper":
        pooled = ", pooled in two passes" if lbi.variance_used == "two-pass" else ""
        return f", given equal Gaussian noise of all annotators{pooled}"
    return ", because annotators saw the same order" if audit.shares_coins else ""
