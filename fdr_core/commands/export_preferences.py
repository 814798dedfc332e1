"""`evenhand export-preferences`: clean preference pairs for training, and the pairs to label again."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fdr_core import Comparisons, InputError, detect
from fdr_core.commands._options import detection_options, format_options
from fdr_core.commands._summary import say_left_out
from fdr_core.judges.preferences import Texts, find_texts, preferences
from fdr_core.report.words import plural
from fdr_core.terminal import exits_2_on_bad_input, with_parent


@click.command("export-preferences")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON lines to write [NAME.preferences.jsonl beside FILE].",
)
@click.option(
    "--again",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV of the pairs to label again [NAME.again.csv beside FILE].",
)
@click.option(
    "--texts", type=click.Path(path_type=Path), help="Table with item and text (and prompt) where FILE has only names."
)
@click.option("--prompt", help="Field that holds the prompt [prompt, instruction, question or input].")
@click.option(
    "--min-probability",
    type=click.FloatRange(0.5, 1),
    default=0.75,
    show_default=True,
    help="Pairs less certain than this are to be labelled again.",
)
@click.option("--only-certain", is_flag=True, help="Leave the pairs to be labelled again out of the pairs to train on.")
@detection_options("q", "min_bias", "sides")
@format_options
@exits_2_on_bad_input
def export_preferences(
    file: Path,
    out: Path | None,
    again: Path | None,
    texts: Path | None,
    prompt: str | None,
    min_probability: float,
    only_certain: bool,
    detection: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """
    Write FILE's comparisons as preference pairs with the leans taken out.

    Each line has prompt, chosen, rejected and margin, as TRL's reward and DPO trainers take them, soft_label (the
    probability that somebody without a lean prefers the chosen), the votes for either, their weight and the chosen's
    share of it (to train on), and the probability that the order is right. Pairs whose order is less certain than
    --min-probability are listed to be labelled again; --only-certain leaves them out of the pairs too.

    \b
    Examples:
      evenhand export-preferences answers.csv
      evenhand export-preferences answers.csv --texts items.csv --only-certain
    """
    out = with_parent(out or file.with_name(f"{file.name.partition('.')[0]}.preferences.jsonl"))
    again = with_parent(again or file.with_name(f"{file.name.partition('.')[0]}.again.csv"))
    comparisons = Comparisons.from_file(file, **reading)
    wording = find_texts(file, texts=texts, prompt=prompt, limits=reading["limits"], fields=reading["fields"])
    say_left_out(comparisons.excluded, comparisons)
    found = detect(comparisons, lbi=None, **detection)
    settled = preferences(comparisons, found, min_probability=min_probability)
    for sentence in (*found.audit.reasons, *found.audit.remedies, *filter(None, [settled.note])):
        click.echo(f"- {sentence}", err=True)
    pairs = settled.certain(min_probability) if only_certain else settled.table
    if not len(pairs):
        raise InputError(
            f"{file}: none of the {len(settled.table):,} pairs is {min_probability:g} certain, so there is nothing to "
            "write; lower --min-probability, leave --only-certain out (soft_label says how sure each is), or label more"
        )
    _write_pairs(out, pairs.to_dict("records"), wording)
    _write_again(again, settled.again.to_dict("records"), wording)
    turned = int(pairs["turned"].sum())
    click.echo(f"{plural(len(pairs), 'pair')} in {out}, {turned:,} of them against the plain majority")
    click.echo(f"a single vote is worth {settled.reliability:.2f}")
    flagged = plural(len(found.flagged), "annotator")
    click.echo(f"{plural(len(settled.again), 'pair')} to label again in {again}; {flagged} flagged")


def _write_pairs(path: Path, rows: list[dict[Any, Any]], wording: Texts) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            line = {
                "prompt": wording.prompt_of(row["chosen"], row["rejected"]),
                "chosen": wording.of(row["chosen"]),
                "rejected": wording.of(row["rejected"]),
                "margin": round(float(row["margin"]), 6),
                "soft_label": round(float(row["soft_label"]), 4),
                "votes_chosen": float(row["votes_chosen"]),
                "votes_rejected": float(row["votes_rejected"]),
                "vote_share": round(float(row["vote_share"]), 4),
                "weight": round(float(row["weight"]), 4),
                "probability": round(float(row["probability"]), 4),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_again(path: Path, rows: list[dict[Any, Any]], wording: Texts) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("item_1", "item_2", "prompt", "probability", "answers", "reason"))
        table.writerows(_again_row(row, wording) for row in rows)


def _again_row(row: Mapping[Any, Any], wording: Texts) -> tuple[Any, ...]:
    one, two = sorted((str(row["chosen"]), str(row["rejected"])))  # not in the order of the present guess
    return (
        one,
        two,
        wording.prompt_of(one, two),
        f"{row['probability']:.3f}",
        round(row["votes_chosen"] + row["votes_rejected"]),
        row["reason"],
    )
