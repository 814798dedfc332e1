"""One alert card: what a reviewer reads about the answers of one annotator, as escaped HTML."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from evenhand.label_studio.payloads import ALERT_ANNOTATOR, ALERT_PROJECT
from evenhand.publish.views import view_data
from fdr_core.report.words import lean_interval, p_value, percent, plural

LABEL_CONFIG = """<View>
  <HyperText name="card" value="$card" inline="true"/>
  <Header value="What should happen with these answers?"/>
  <Choices name="decision" toName="card" choice="single-radio" required="true">
    <Choice value="Confirm" hint="The answers do lean to one side; treat them with care."/>
    <Choice value="Dismiss" hint="There is a good reason, or it is a false alarm."/>
    <Choice value="Watch" hint="Not clear yet; look again later."/>
  </Choices>
  <TextArea name="comment" toName="card" placeholder="Why? (optional)" maxSubmissions="1" rows="3"/>
</View>"""

# The page itself and our keys would only fill the list with code.
LIST_VIEW = view_data(
    "Default",
    hidden=(
        "data.card",
        f"data.{ALERT_PROJECT}",
        f"data.{ALERT_ANNOTATOR}",
        "cancelled_annotations",
        "total_predictions",
    ),
)

LABEL_STYLE = "padding:2px 16px 2px 0;opacity:.75;white-space:nowrap;vertical-align:top"
EARLY_WARNING = "early warning of a lean to one side"
OWN_ANSWER = "An answer by the person this card is about was not counted: nobody decides about themselves."
STYLE = "font-family:system-ui,sans-serif;max-width:44rem;line-height:1.5"


@dataclass(frozen=True)
class Card:
    """What one card is made of; `name` is what people read, `annotator` what comes back with the decision."""

    project_id: int
    project_title: str
    annotator: str
    name: str
    finding: str
    evidence: Mapping[str, Any]
    guarantee: str
    since: float
    link: str = ""
    tasks: tuple[tuple[int, str], ...] = ()
    is_warning: bool = False

    @property
    def words(self) -> str:
        """The finding as people read it."""
        return EARLY_WARNING if self.is_warning else self.finding


def card_data(card: Card) -> dict[str, Any]:
    """The task data of a card; besides the page, a few plain columns to sort and filter by."""
    bias = _number(card.evidence, "bias")
    return {
        "card": card_html(card),
        "annotator": card.name,
        "finding": card.words,
        "lean": "" if bias is None else round(bias, 3),
        "answers": _count(card.evidence, "comparisons"),
        ALERT_PROJECT: card.project_id,
        ALERT_ANNOTATOR: card.annotator,
    }


def card_html(card: Card) -> str:
    """The page of a card: the finding, the figures behind it, and what it does not say."""
    rows = "".join(
        f'<tr><td style="{LABEL_STYLE}">{escape(label)}</td><td>{escape(text)}</td></tr>' for label, text in _rows(card)
    )
    link = f'<p><a href="{escape(card.link, quote=True)}">Open in Evenhand</a></p>' if card.link else ""
    title = f"{card.name}: {card.words}"
    return (
        f'<div style="{STYLE}"><h3 style="margin:0 0 4px">{escape(title)}</h3>'
        f'<p style="margin:0 0 12px;opacity:.75">{escape(card.project_title)}</p><table>{rows}</table>'
        f'<p style="margin:12px 0;opacity:.75">{escape(_caution(card))}</p>{_task_links(card)}{link}</div>'
    )


def _rows(card: Card) -> list[tuple[str, str]]:
    """Label and text of each figure that is known."""
    evidence = card.evidence
    rows = [("Answers", _answers(evidence)), ("Estimated lean", _lean(evidence))]
    adjusted = _number(evidence, "q_value")
    if adjusted is not None:
        rows.append(("Exact test", f"adjusted p-value {p_value(adjusted)}"))
    share = _number(evidence, "lbi_share")
    if share is not None:
        rows.append(("Knockoff LBI", f"selects in {percent(share)} of its draws"))
    match = _number(evidence, "match_ratio")
    if match is not None:
        rows.append(("Agrees with the consensus", f"{percent(match)} of the time"))
    rows += _beside(evidence)
    run = _count(evidence, "longest_run")
    if run:
        rows.append(("Longest streak on one side", plural(run, "answer")))
    lead = _number(evidence, "median_lead_time")
    if lead is not None:
        rows.append(("Median time per answer", f"{lead:.1f} s"))
    rows.append(
        (
            "Warned" if card.is_warning else "On the list since",
            datetime.fromtimestamp(card.since, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    )
    return [(label, text) for label, text in rows if text]


def _beside(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What each control beside the one that decides says."""
    rows = []
    for control, said in (evidence.get("controls") or {}).items():
        adjusted = _number(said, "q_value")
        tested = "" if adjusted is None else f"; adjusted p-value {p_value(adjusted)}"
        rows.append(
            (f"On “{control}”", f"{_answers(said)}{tested}{'; leans there too' if said.get('flagged') else ''}")
        )
    return rows


def _answers(evidence: Mapping[str, Any]) -> str:
    total = _count(evidence, "comparisons")
    if not total:
        return ""
    left, right, ties = (_count(evidence, key) for key in ("left", "right", "ties"))
    return f"{total}: {left} left, {right} right" + (f", {plural(ties, 'tie')}" if ties else "")


def _lean(evidence: Mapping[str, Any]) -> str:
    bias, interval = _number(evidence, "bias"), lean_interval(evidence)
    if bias is None:
        return ""
    side = "left" if bias > 0 else "right"
    text = f"{abs(bias):.2f} to the {side}; 0 is even-handed, 1 is always that side"
    return f"{text} (95 % interval {interval})" if interval else text


def _task_links(card: Card) -> str:
    """The tasks to look at first."""
    if not card.tasks:
        return ""
    links = ", ".join(f'<a href="{escape(url, quote=True)}">{number}</a>' for number, url in card.tasks)
    return f"<p>Tasks whose answers weigh most, heaviest first: {links}</p>"


def _caution(card: Card) -> str:
    early = "It rests on few answers so far; a run will follow. " if card.is_warning else ""
    return (
        f"{early}{card.guarantee} A card is about answers, not about people: screens, shortcuts and instructions can "
        "cause a lean too. Look at some of the tasks before you decide. Nobody may decide about themselves."
    ).strip()


def with_own_answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """A card on which the person concerned has answered: it says that this does not count."""
    return {**data, "card": f"<p><b>{escape(OWN_ANSWER)}</b></p>{data['card']}"}


def _number(evidence: Mapping[str, Any], key: str) -> float | None:
    value = evidence.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _count(evidence: Mapping[str, Any], key: str) -> int:
    value = _number(evidence, key)
    return 0 if value is None else int(value)
