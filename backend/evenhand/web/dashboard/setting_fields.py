"""The settings form: how each setting is entered, and what it does."""

from dataclasses import dataclass

from fdr_core.option import Option
from fdr_core.options import LBI_TITLE, LBI_WORDS, OPTIONS


@dataclass(frozen=True)
class Field:
    """One setting on the form: how it is entered, and what it does."""

    key: str
    title: str
    effect: str
    kind: str = "text"
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""


def _field(option: Option) -> Field:
    """An option of `detect` on the form."""
    if not option.choices:
        return Field(option.name, option.title, option.words, "number")
    return Field(option.name, option.title, option.words, "choice", tuple(option.choices.items()))


JUDGES = (
    ("people", "of people"),
    ("predictions", "of LLM judges: predictions by model version"),
    ("both", "of people and judges together"),
)
AFTER_CONFIRM = (
    ("nothing", "nothing"),
    ("relabel", "a project in which these tasks are labelled anew, sides flipped by new coins"),
    ("overlap", "one more answer is asked for on these tasks"),
)
GROUPS: tuple[tuple[str, str, tuple[Field, ...]], ...] = (
    (
        "How answers are read",
        "Changing one of these reads all answers again from Label Studio.",
        (
            Field(
                "control", "Control", "The control that holds the answer. Empty: the first Pairwise control.", "field"
            ),
            Field(
                "controls",
                "Several controls",
                "Names, separated by commas: judged together, or apart if Control above names the one that decides.",
            ),
            Field(
                "item_left", "Left item", "Data field that names the left item. Empty: what the control shows.", "field"
            ),
            Field(
                "item_right",
                "Right item",
                "Data field that names the right item. Empty: what the control shows.",
                "field",
            ),
            Field(
                "coin",
                "Coin",
                "Data field with the id of the coin that placed the sides. Empty: one coin per task.",
                "field",
            ),
            Field("stratum", "Stratum", "Data field that groups tasks, such as the prompt.", "field"),
            Field(
                "answers",
                "Answers",
                "What answers mean whose words do not tell: left, right, tie, both, neither, skip, or 1 (left) to −1 "
                "(right).",
                "area",
                placeholder='{"A is worse": "right", "Same": "tie"}',
            ),
        ),
    ),
    (
        "How answers are judged",
        "These take effect with the next run; earlier runs stay as they are.",
        (
            *(_field(option) for option in OPTIONS),
            Field(
                "judges",
                "Whose answers",
                "Stored predictions that name a model version can be judged like annotators; pulls read them.",
                "choice",
                JUDGES,
            ),
            Field("count_ground_truth", "Ground truth", "Also judge annotations marked as ground truth.", "switch"),
            Field(
                "count_predictions",
                "Shown predictions",
                "Also judge answers taken over from a shown prediction; they may say more about the "
                "prediction than about the person.",
                "switch",
            ),
        ),
    ),
    (
        LBI_TITLE,
        "The paper's method, which runs beside the exact tests.",
        (Field("lbi", "How it is run", LBI_WORDS, placeholder="draws=21,path=lbi"),),
    ),
    (
        "When runs happen",
        "A run starts when either is due and there is something new; “Run now” works at any time.",
        (
            Field("every_minutes", "Every … minutes", "Leave empty for no runs by the clock.", "number"),
            Field(
                "pull_only",
                "Pulls only",
                "Label Studio cannot call this service: no webhook and no ML backend are looked for.",
                "switch",
            ),
            Field("every_answers", "After … new answers", "Leave empty for no runs by their number.", "number"),
        ),
    ),
    (
        "What is written to Label Studio",
        "Everybody who can open the Label Studio project, annotators included, can see what is published there.",
        (
            Field(
                "publish.predictions",
                "Predictions",
                "The consensus winner on completed tasks; never on tasks that can still be labelled.",
                "switch",
            ),
            Field(
                "publish.tab",
                "Review tab",
                "A Data Manager tab for each annotator with a lasting flag, with the tasks that weigh most.",
                "switch",
            ),
            Field(
                "publish.alerts",
                "Alerts project",
                "One card per lasting flag or warning, with the evidence; reviewers' answers come back as decisions.",
                "switch",
            ),
            Field(
                "review_tasks",
                "Tasks in a review tab",
                "How many of the heaviest tasks a tab shows.",
                "number",
            ),
            Field(
                "after_confirm",
                "After Confirm",
                "What follows a confirmed flag. Nobody's answers are deleted, and `evenhand undo` takes it back.",
                "choice",
                AFTER_CONFIRM,
            ),
            Field(
                "reviewers",
                "Reviewers",
                "Who may decide: Label Studio user ids or e-mail addresses, or account names here, separated by "
                "commas. Empty: every reviewer. Nobody may decide about themselves.",
                "list",
            ),
            Field(
                "publish.pseudonyms",
                "Pseudonyms",
                "Cards show pseudonyms instead of names, and there are no review tabs.",
                "switch",
            ),
        ),
    ),
)
