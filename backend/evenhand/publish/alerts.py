"""The alerts project: one card per flagged or warned annotator, and reviewers' answers that come back as decisions."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

from evenhand.domain import Kind, Project, ProjectRef, shown_name
from evenhand.label_studio.client import ensure_webhook, project_epoch, reached_at, user_names
from evenhand.label_studio.payloads import ALERT_ANNOTATOR, ALERT_PROJECT, item_of
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.projects.reading import reading_of, setup_of
from evenhand.pseudonyms import PSEUDONYM_KEY, pseudonym
from evenhand.publish.context import Context, content_hash
from evenhand.publish.tabs import MOST_ANSWERS, heaviest, task_link, view_data
from evenhand.runs.report import history_words
from fdr_core.report.words import flag_words, guarantee_parts, lean_interval, p_value, percent, plural

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
EARLY_WARNING = "early warning of a lean to the"
ITEM_LENGTH = 160
OWN_ANSWER = "An answer by the person this card is about was not counted: nobody decides about themselves."
STYLE = "font-family:system-ui,sans-serif;max-width:44rem;line-height:1.5"


@dataclass(frozen=True)
class Example:
    """An answer that weighs much: its task, the items as they stood, what was chosen, and what they are worth."""

    task: int
    url: str
    left: str
    right: str
    outcome: float
    expected: float | None


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
    examples: tuple[Example, ...] = ()
    is_warning: bool = False
    others: str = ""

    @property
    def words(self) -> str:
        """The finding as people read it."""
        left, right = (_count(self.evidence, side) for side in ("left", "right"))
        return f"{EARLY_WARNING} {'left' if left >= right else 'right'}" if self.is_warning else self.finding


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
        f'<p style="margin:12px 0;opacity:.75">{escape(_caution(card))}</p>{_examples(card)}{link}</div>'
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
    rows.append(("What became of them", card.others))
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


def _examples(card: Card) -> str:
    """The pairs to look at first, as they stood."""
    if not card.examples:
        return ""
    shown = "".join(
        f'<li style="margin:6px 0"><a href="{escape(one.url, quote=True)}">task {one.task}</a>: chose '
        f"{'left' if one.outcome > 0 else 'right'}{_expected(one)}<br>left: {_item(one.left)}<br>"
        f"right: {_item(one.right)}</li>"
        for one in card.examples
    )
    return f"<p>Answers that weigh most, heaviest first:</p><ol>{shown}</ol>"


def _expected(one: Example) -> str:
    """What the others made of the items."""
    if one.expected is None:
        return ""
    side = "left" if one.expected > 0 else "right"
    return f", where the consensus is {abs(one.expected):.2f} to the {side}" if abs(one.expected) >= 0.01 else ""


def _item(text: str) -> str:
    flat = " ".join(str(text).split())
    return escape(flat if len(flat) <= ITEM_LENGTH else flat[: ITEM_LENGTH - 1] + "…")


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


CHANNEL = "alerts"
TITLE_LENGTH = 50
EXAMPLES = 3
GONE = "no longer on the list"
KINDS: tuple[Kind, ...] = ("alerts",)

Json = dict[str, Any]


def publish_alerts(context: Context) -> None:
    """Keep one card per flagged annotator; cards nobody has answered go when the flag goes."""
    if not context.config.publish.alerts:
        return
    cards = _cards(context)
    known = alerts_project(context)
    if not cards and known is None:
        return
    # Events and pulls of the alerts project bring answers that the cards may have to speak of.
    heard = (known.id, known.last_event_at, known.last_pull_at) if known else None
    fingerprint = content_hash([{name: card.data for name, card in cards.items()}, heard])
    if context.is_done(CHANNEL, fingerprint) and known is not None and _is_there(context, known):
        return
    with context.attempt(CHANNEL, fingerprint):
        target = _ensure_project(context, known)
        # An event brings only the reviewer's id; the name has to be here before it comes.
        context.store.annotators.name(target.id, user_names(context.client), insert=True)
        _listen(context, target)
        if not context.client.views(target.ls_project_id):
            context.client.create_view(target.ls_project_id, LIST_VIEW)
        _write(context, target, cards)


def _listen(context: Context, target: Project) -> None:
    """Have decisions sent to where the comparison project's events go."""
    if context.settings is None:
        return
    address = reached_at(context.client, context.project.ls_project_id, context.settings)
    if address is not None:
        ensure_webhook(context.client, target.ls_project_id, context.settings, address=address)


def alerts_project(context: Context) -> Project | None:
    """The alerts project that belongs to this one."""
    found = [p for p in context.store.projects.all(kinds=KINDS) if p.alerts_for == context.project.id]
    return found[-1] if found else None


@dataclass(frozen=True)
class Shown:
    """A card's task data, and whom it is about."""

    annotator: str
    data: Json


def _cards(context: Context) -> dict[str, Shown]:
    """Cards by the name under which the annotator appears: of flags, and of early warnings that are no flags yet."""
    store, project = context.store, context.project
    cards: dict[str, Shown] = {}
    for flag in store.flags.all(project.id):
        annotator = str(flag["annotator_id"])
        figures = store.findings.get(flag["run_id"], annotator) or {}
        facts = {"finding": flag_words(flag), "evidence": {**figures, **flag["evidence"]}}
        card = _card(context, annotator, since=float(flag["since"]), **facts)
        cards[card.annotator] = Shown(annotator, card_data(card))
    known = {shown.annotator for shown in cards.values()}
    for annotator, live in store.live.warned(project.id).items():
        if annotator not in known:
            evidence = _counts(store.comparisons.of_annotator(project.id, annotator, limit=MOST_ANSWERS))
            since = float(live.warned_at or 0.0)
            card = _card(context, annotator, since=since, finding="", evidence=evidence, is_warning=True)
            cards[card.annotator] = Shown(annotator, card_data(card))
    return cards


def _card(context: Context, annotator: str, **facts: Any) -> Card:
    """A card under the name or pseudonym of the annotator; with pseudonyms nothing on it leads to the person."""
    store, project, config = context.store, context.project, context.config
    guarantee = guarantee_parts(context.run.guarantee if context.run else None)[1]
    described = {"project_id": project.id, "project_title": project.title, "guarantee": guarantee, **facts}
    if config.publish.pseudonyms:
        shown = pseudonym(store.secrets.get(PSEUDONYM_KEY), project.id, annotator)
        return Card(annotator=shown, name=shown, **described)
    person = store.annotators.get(project.id, [annotator]).get(annotator)
    weighed = heaviest(store, project, context.run, annotator, most=EXAMPLES)
    examples = tuple(
        Example(
            one.row["task_id"],
            task_link(project, context.settings, one.row["task_id"]),
            *_texts(context, one.row),
            one.row["outcome"],
            one.expected,
        )
        for one in weighed
    )
    history = store.revisions.of(project.id, [annotator]).get(annotator)
    others = history_words(history, store.annotators.get(project.id)) if history else ""
    described |= {"name": shown_name(person, annotator), "examples": examples, "others": others}
    return Card(annotator=annotator, link=_link(context, annotator), **described)


def _texts(context: Context, row: Mapping[str, Any]) -> tuple[str, str]:
    """The two items as the annotator saw them: where they are named by other fields, Label Studio has the texts."""
    project, items = context.project, (row["left_item"], row["right_item"])
    reading, setup = reading_of(project), setup_of(project.label_config)
    control = setup.control(reading.control) if reading else None
    shown = [setup.fields.get(name) for name in control.to_name] if control else []
    if reading and len(shown) == 2 and None not in shown and shown != [reading.item_left, reading.item_right]:
        with suppress(LabelStudioMissingError):
            data = context.client.task(row["task_id"])["data"]
            seen = tuple(item_of(data, str(name))[1] for name in shown)
            return seen[0] or items[0], seen[1] or items[1]
    labels = context.store.items.labels(project.id, set(items))
    return labels.get(items[0], items[0]), labels.get(items[1], items[1])


def _counts(answers: list[Json]) -> Json:
    """Left, right and ties among the judged answers of somebody no run has seen yet."""
    outcomes = [answer["outcome"] for answer in answers if answer["status"] == "answer"]
    sides = {"left": sum(y > 0 for y in outcomes), "right": sum(y < 0 for y in outcomes)}
    return {"comparisons": len(outcomes), **sides, "ties": sum(y == 0 for y in outcomes)}


def _is_there(context: Context, known: Project) -> bool:
    """Whether the alerts project still exists and is the one we know."""
    try:
        return project_epoch(context.client.project(known.ls_project_id)) == known.epoch
    except LabelStudioMissingError:
        return False


def _link(context: Context, annotator: str) -> str:
    """The annotator's page in the dashboard, at the address people use."""
    url = context.settings.public_url if context.settings else ""
    return f"{url}/ui/projects/{context.project.id}/annotator?id={quote(annotator, safe='')}" if url else ""


def _marker(project: Project) -> str:
    """Marks our project in Label Studio, so that one made just before a kill is found again."""
    return f"[evenhand {project.ls_project_id}.{project.epoch}]"


def _ensure_project(context: Context, known: Project | None) -> Project:
    """The alerts project, found or made; one that was deleted in Label Studio is made anew."""
    client, project = context.client, context.project
    if known is not None:
        if _is_there(context, known):
            return known
        context.store.projects.mark_deleted(known.id)
    marker = _marker(project)
    described = next((p for p in client.projects() if marker in str(p.get("description") or "")), None)
    if described is None:
        described = client.create_project(
            {
                "title": f"Position bias: {project.title}"[:TITLE_LENGTH].strip(),
                "description": f"Cards made by Evenhand for reviewers; answers are read back as decisions. {marker}",
                "label_config": LABEL_CONFIG,
                "show_skip_button": False,
                "enable_empty_annotation": False,
            }
        )
        context.count("alert_projects_created")
    return context.store.projects.register(
        client.url,
        ProjectRef(int(described["id"]), project_epoch(described)),
        title=str(described.get("title") or ""),
        label_config=LABEL_CONFIG,
        kind="alerts",
        alerts_for=project.id,
    )


def _write(context: Context, target: Project, cards: dict[str, Shown]) -> None:
    """Compare the cards that are there with those that should be."""
    existing: dict[str, list[Json]] = {}
    for page in context.client.tasks(target.ls_project_id):
        for task in page:
            data = task.get("data") if isinstance(task.get("data"), dict) else {}
            existing.setdefault(str((data or {}).get(ALERT_ANNOTATOR)), []).append(task)
    for name, tasks in existing.items():
        kept, *extra = sorted(tasks, key=lambda task: (not task.get("annotations"), int(task["id"])))
        for task in extra:
            _retire(context, task)
        if name not in cards:
            _retire(context, kept)
            continue
        data = with_own_answer(cards[name].data) if _has_own_answer(kept, cards[name]) else cards[name].data
        if kept["data"] != data:
            context.client.update_task(int(kept["id"]), {"data": data})
            context.count("cards_updated")
    missing = [{"data": card.data} for name, card in cards.items() if name not in existing]
    if missing:
        context.client.import_tasks(target.ls_project_id, missing)
        context.count("cards_created", len(missing))


def _has_own_answer(task: Json, card: Shown) -> bool:
    """Whether the person a card is about has answered it."""
    authors = (annotation.get("completed_by") for annotation in task.get("annotations") or ())
    return any(str(author.get("id") if isinstance(author, dict) else author) == card.annotator for author in authors)


def _retire(context: Context, task: Json) -> None:
    """Remove a card nobody answered; one that was answered stays and says that it is no longer current."""
    if not task.get("annotations"):
        context.client.delete_task(int(task["id"]))
        context.count("cards_removed")
    elif task["data"].get("finding") != GONE:
        page = f"<p><b>The latest run no longer lists this annotator.</b></p>{task['data'].get('card', '')}"
        context.client.update_task(int(task["id"]), {"data": {**task["data"], "finding": GONE, "card": page}})
        context.count("cards_retired")
