"""The settings form: how each setting is entered, and what it does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """One setting on the form: how it is entered, and what it does."""

    key: str
    title: str
    effect: str
    kind: str = "text"
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""


GROUPS: tuple[tuple[str, str, tuple[Field, ...]], ...] = (
    (
        "How answers are read",
        "Changing one of these reads all answers again from Label Studio.",
        (
            Field("control", "Control", "The control that holds the answer. Empty: the first Pairwise.", "field"),
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
                "outcomes",
                "Outcomes",
                "For Choices and Rating: what each answer means, from 1 (left preferred) to −1 (right preferred).",
                "area",
                placeholder='{"A": 1, "tie": 0, "B": -1}',
            ),
        ),
    ),
    (
        "How answers are judged",
        "These take effect with the next run; earlier runs stay as they are.",
        (
            Field(
                "q",
                "Target error rate q",
                "At most this share of the flags is meant to be wrong, on average. Smaller: fewer, surer flags.",
                "number",
            ),
            Field(
                "min_bias",
                "Smallest lean worth a flag",
                "A certain but tiny lean is of no interest: leans below this are never flagged.",
                "number",
            ),
            Field(
                "sides",
                "Sides",
                "Were the sides assigned by chance? State it only if you know: flags are wrong if it is not so.",
                "choice",
                (("audit", "let the audit test it"), ("random", "I state that coins decided the sides")),
            ),
            Field(
                "method",
                "Construction",
                "How the comparison copies are made. Leave it to the audit unless you reproduce a study.",
                "choice",
                (("auto", "as the audit decides"), ("flip", "coin flips"), ("paper", "fixed design (the paper's)")),
            ),
            Field(
                "path",
                "Path",
                "How annotators enter the model. On most designs all four flag the same.",
                "choice",
                (
                    ("lbi", "linearised Bregman (LBI)"),
                    ("iss", "inverse scale space (ISS)"),
                    ("lasso", "LASSO"),
                    ("marginal", "marginal: fastest"),
                ),
            ),
            Field(
                "cut",
                "Selection rule",
                "knockoff+ aims at the share of false flags itself; knockoff only at a modified rate, and flags more.",
                "choice",
                (("knockoff+", "knockoff+"), ("knockoff", "knockoff")),
            ),
            Field(
                "copies",
                "Copies",
                "Knockoff copies per annotator. Empty: chosen by the number of annotators. More "
                "copies allow shorter lists.",
                "number",
            ),
            Field(
                "draws",
                "Draws",
                "Independent draws per run; flagged is who is selected in most. More: steadier and slower.",
                "number",
            ),
            Field("count_ground_truth", "Ground truth", "Judge annotations marked as ground truth too.", "switch"),
            Field(
                "count_predictions",
                "Shown predictions",
                "Judge answers that were taken over from a shown prediction too. They may say "
                "more about the prediction than the person.",
                "switch",
            ),
        ),
    ),
    (
        "When runs happen",
        "A run starts when either is due and something is new; “Run now” works at any time.",
        (
            Field("every_minutes", "Every … minutes", "Empty: not by time.", "number"),
            Field("every_answers", "After … new answers", "Empty: not by count.", "number"),
        ),
    ),
    (
        "What is written to Label Studio",
        "Everybody who can open the Label Studio project can see what is published there, annotators too.",
        (
            Field(
                "publish.predictions",
                "Predictions",
                "The consensus winner on completed tasks; never on tasks that can still be labelled.",
                "switch",
            ),
            Field("publish.tab", "Review tab", "A Data Manager tab with the tasks of flagged annotators.", "switch"),
            Field(
                "publish.alerts",
                "Alerts project",
                "One card per flagged annotator, with the evidence; reviewers' answers come back as decisions.",
                "switch",
            ),
            Field("publish.pseudonyms", "Pseudonyms", "Cards and tab show pseudonyms instead of names.", "switch"),
        ),
    ),
)
