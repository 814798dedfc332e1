"""The logs that are read as a table of paths: one row each."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.layouts import Layout
from fdr_core.inputs.rows import OUTCOMES
from fdr_core.inputs.source import Record

_SIGNS = {"a>b": 1.0, "a>>b": 1.0, "b>a": -1.0, "b>>a": -1.0, "a=b": 0.0, "a~b": 0.0}
_FIRST_OR_SECOND = {"1": 1.0, "2": -1.0, "0": 0.0, "tie": 0.0}
_A_IS = {"a-is-clearly-better": 1, "a-is-slightly-better": 0.5, "b-is-slightly-better": -0.5, "b-is-clearly-better": -1}
_BOTH = ("Both orders of every pair were asked, so a lean is told exactly and no coin is needed.",)
_NAMED = ("Every annotator is named.",)
_NO_JUDGE = ("The judge is named in the path of the file only: it is taken from there.",)
_NO_COIN = ("Nothing records whether a coin decided the sides: state --sides random if one did.",)


def _half(name: str, k: int) -> Callable[[Record], Any]:
    """One of two names that stand in one field, divided by a line below."""
    return lambda record: str(record.get(name) or "_").split("_", 1)[k]


def _grades(highest: int, first: int) -> dict[str, float]:
    """Numbers whose sign says who won: `first` is the sign of a win of the first shown."""
    return {str(k): first * k / highest for k in range(-highest, highest + 1)}


_SWITCHED = "is_switched_outputs"


def is_switched(record: Record) -> bool:
    """Whether AlpacaEval showed output_2 first: as recorded, else by its own rule.

    Annotations are stored with the outputs back in their places. The rule draws one seeded coin per instruction, the
    same for all models and judges: ``Random("is_switched_outputs" + instruction + "0")``.
    """
    recorded = record.get(_SWITCHED)
    if isinstance(recorded, bool):
        return recorded
    return bool(Random(f"{_SWITCHED}{record.get('instruction')}0").choices([False, True])[0])


def _preference(value: Any) -> float:
    """AlpacaEval's, from 1 (output_1) to 2 (output_2), 1.5 for a tie; older files write a tie as 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return np.nan
    return 0.0 if value == 0 else float(np.round(3.0 - 2.0 * value, 12)) if 1 <= value <= 2 else np.nan


_ARENA: dict[str, Any] = {
    "name": "chatbot-arena",
    "title": "Chatbot Arena battles (33k, 55k, 140k)",
    "annotator": ("judge || evaluation_session_id",),
    "left": "model_a",
    "right": "model_b",
    "time": "tstamp || timestamp",
    "supports": ("Models were drawn for both sides by chance, a fresh coin for every battle.",),
}
_PWCMP: dict[str, Any] = {
    "name": "pwcmp",
    "title": "pwcmp comparisons",
    "annotator": ("observer || Observer",),
    "within": "scene || Scene",
    "supports": ("Every observer is named.",),
    "lacks": ("Which condition stood on which side is taken from the order of the columns.",),
}
_ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
_SELECTED = ("selected_A", "selected_a", "is_A_selected", "is_a_selected", "selected_1")
_ANNOTATIONS = ("normal_worker_annotations", "expert_worker_annotations", "annotations")
_PARTICIPANT = "PROLIFIC_PID || Participant id || participant_id || prolific_id"
_NO_SIDE = "cannot be used: no side"

#: One row a layout, tried in this order: those with more fields of their own come before those with fewer.
LAYOUTS: tuple[Layout, ...] = (
    Layout(
        name="llmbar",
        title="LLMBar evaluator results, both orders",
        needs=("output_1", "output_2", 'results[-1]."swap = False".winner'),
        annotator=("@folders",),
        left="output_1",
        right="output_2",
        answers=('results[-1]."swap = False".winner', 'results[-1]."swap = True".winner'),
        words=_FIRST_OR_SECOND,
        names_items=True,
        supports=_BOTH,
        lacks=_NO_JUDGE,
    ),
    Layout(
        name="judgebench",
        title="JudgeBench judgments, both orders",
        needs=("pair_id", "response_A", "response_B", "judgments"),
        annotator=("judge_name", "judgments[0].judgment.judge_model || judgments[1].judgment.judge_model"),
        left="response_A",
        right="response_B",
        answers=("judgments[0].decision", "judgments[1].decision"),
        words=_SIGNS,
        pair=("pair_id",),
        stratum="source",
        supports=_BOTH,
    ),
    Layout(
        name="reife",
        title="ReIFE evaluator results, one order a file",
        needs=("instruction", "output_1", "output_2", "result.winner"),
        annotator=("@file",),
        left="output_1",
        right="output_2",
        answers=("result.winner",),
        words=_FIRST_OR_SECOND,
        pair=("instruction", "@items"),
        void=("result.fail", "answer not understood, winner drawn at random"),
        lacks=("The other order is in the file of the same name with _swap: give it with --swapped.", *_NO_JUDGE),
    ),
    Layout(
        name="position-bias-analyzer",
        title="Position-Bias-Analyzer records",
        needs=("cmp_index", "A", "B", "extracted"),
        annotator=("@before extracted",),
        left="A",
        right="B",
        answers=("extracted",),
        pair=("question", "@items"),
        stratum="task",
        supports=_BOTH,
    ),
    Layout(
        name="fastchat-pairs",
        title="FastChat pairwise judgments, both orders",
        needs=("model_1", "model_2", "g1_winner", "g2_winner"),
        annotator=("judge",),
        left="model_1",
        right="model_2",
        answers=("g1_winner", "g2_winner"),
        words={"model_1": 1.0, "model_2": -1.0, "tie": 0.0},
        names_items=True,
        pair=("question_id", "turn", "@items"),
        time="tstamp",
        void=("m1_score", "graded one by one"),
        supports=_BOTH,
        lacks=("Lines with m1_score were graded one by one, without any order: they are left out.",),
    ),
    Layout(
        name="evaluatorq",
        title="evaluatorq pairwise run",
        needs=("judging", "entries"),
        each=("entries[].comparison.votes[].observations[]",),
        annotator=("model",),
        left="response_a",
        right="response_b",
        answers=("verdict",),
        swapped=lambda record: record.get("ordering") == "ba",
        names_items=True,
        pair=("question", "@items"),
        supports=_BOTH,
        lacks=("Runs saved before repetitions were recorded hold reconciled votes only, without any side.",),
    ),
    Layout(
        name="pandalm",
        title="PandaLM test set and its judges",
        needs=("cmp_key", "response1", "response2"),
        people=("annotator1", "annotator2", "annotator3", "gpt_result", "pandalm_result"),
        left=_half("cmp_key", 0),
        right=_half("cmp_key", 1),
        answers=(),
        words=_FIRST_OR_SECOND,
        task="idx",
        lacks=("Which model stood first was fixed by its name: sides were never swapped.",),
    ),
    Layout(
        name="lfqa",
        title="LFQA expert preferences",
        needs=("question", "answer_a", "answer_b", "overall_preference"),
        annotator=("annotator || annotator_id || worker_id",),
        left="answer_a",
        right="answer_b",
        answers=("overall_preference",),
        words=_grades(1, -1),
        lacks=_NO_COIN,
    ),
    Layout(
        name="helpsteer3",
        title="HelpSteer preferences",
        needs=("response1", "response2", "overall_preference"),
        left="response1",
        right="response2",
        answers=("overall_preference",),
        words=_grades(3, -1),
        stratum="domain",
        lacks=_NO_COIN,
    ),
    Layout(
        name="helpsteer2",
        title="HelpSteer2 preferences",
        needs=("response_1", "response_2", "preference_strength"),
        left="response_1",
        right="response_2",
        answers=("preference_strength",),
        words=_grades(3, -1),
        lacks=_NO_COIN,
    ),
    Layout(
        name="auto-j-pairs",
        title="Auto-J pairs labelled by people",
        needs=("response 1", "response 2", "label"),
        left="response 1",
        right="response 2",
        answers=("label",),
        words={"0": 1.0, "1": -1.0, "2": 0.0},
        stratum="scenario",
        lacks=_NO_COIN,
    ),
    Layout(
        name="auto-j-critiques",
        title="Auto-J comparisons of critiques",
        needs=("output", "meta"),
        annotator=("@file",),
        left=lambda _: "first system",
        right=lambda _: "second system",
        answers=("output",),
        pattern=r"^\s*([ABC])\b",
        swapped="meta.exchange",
        task="@row",
        supports=("The order shown is recorded (exchange).",),
        lacks=_NO_JUDGE,
    ),
    Layout(
        name="auto-j-outputs",
        title="Auto-J leaderboard outputs, one order a file",
        needs=("output",),
        only=True,
        annotator=("@file",),
        left="@first",
        right="@second",
        answers=("output",),
        words={"0": 1.0, "1": -1.0, "2": 0.0},
        pair=("@row",),
        lacks=("The other order is in a file of its own: give it with --swapped.", *_NO_JUDGE),
    ),
    Layout(
        name="alpaca-eval",
        title="AlpacaEval annotations",
        needs=("instruction", "generator_1", "generator_2", "annotator", "preference"),
        annotator=("annotator",),
        left="generator_1",
        right="generator_2",
        answers=("preference",),
        words=_preference,
        names_items=True,
        swapped=is_switched,
        coin=lambda record: item_key(record.get("instruction")),
        void=(
            lambda record: record.get("output_1") is not None and record["output_1"] == record.get("output_2"),
            "identical outputs, not sent to the judge",
        ),
        uses={
            "preference": "answer: 1 for output_1 to 2 for output_2, graded in between",
            "instruction": "coin: AlpacaEval draws the order once per instruction",
            **dict.fromkeys(("output_1", "output_2"), "only to leave out pairs of identical outputs"),
            _SWITCHED: "side: whether output_2 was shown first",
        },
        supports=("Sides were drawn by a seeded coin per instruction, which is recorded or computed again.",),
        lacks=(
            "Where is_switched_outputs is missing the sides are those of AlpacaEval's rule with seed 0; annotations "
            "made with another seed would be read wrongly.",
            "One coin serves all models and judges of an instruction, and most pairs share one baseline.",
        ),
    ),
    Layout(
        name="multipref",
        title="comparisons with nested annotations (MultiPref)",
        needs=("model_a", "model_b", " || ".join(_ANNOTATIONS)),
        each=tuple(f"{name}[]" for name in _ANNOTATIONS),
        annotator=("evaluator || annotator || worker || annotator_id || worker_id",),
        left="model_a",
        right="model_b",
        answers=("overall_pref || preference || pref || choice",),
        words={**OUTCOMES, **_A_IS},
        task="comparison_id || id",
        time="timestamp",
        lead_time="time_spent",
        uses=dict.fromkeys(_ANNOTATIONS, "annotator, answer, time and lead time of each"),
        supports=("Every annotator is named; graded answers keep their strength.",),
        lacks=("Several people answered under one order of a task: the coin is shared between them.",),
    ),
    Layout(
        name="mt-bench",
        title="MT-bench human judgments",
        needs=("question_id", "model_a", "model_b", "winner", "judge", "turn"),
        without=("anony", "tstamp", "language"),
        annotator=("judge",),
        left="model_a",
        right="model_b",
        answers=("winner",),
        stratum="question_id",
        void=(lambda record: "gpt4_pair" in str(record.get("judge")), "summed over both orders"),
        uses={"turn": "not needed: each turn is an answer of its own"},
        supports=("Every judge is named, so that each can be judged.",),
        lacks=(
            "Answers of the judge gpt4_pair are sums over both orders and have no side: they are left out; "
            "FastChat's own log of them (g1_winner, g2_winner) has both.",
        ),
    ),
    Layout(needs=("model_a", "model_b", "winner"), answers=("winner",), **_ARENA),
    Layout(needs=("model_a", "model_b", *_ONE_HOT), one_hot=_ONE_HOT, **_ARENA),
    Layout(
        needs=("observer || Observer", "condition_1 || Condition_1", "selection || Selection"),
        left="condition_1 || Condition_1",
        right="condition_2 || Condition_2",
        answers=("selection || Selection",),
        **_PWCMP,
    ),
    Layout(
        needs=("observer || Observer", "condition_1 || condition_A", " || ".join(_SELECTED)),
        left="condition_1 || condition_A",
        right="condition_2 || condition_B",
        answers=(" || ".join(_SELECTED),),
        words={"1": 1.0, "0": -1.0},
        **_PWCMP,
    ),
    Layout(
        name="evalica",
        title="evalica comparisons",
        needs=("left", "right", "winner"),
        annotator=("annotator || judge || worker",),
        left="left",
        right="right",
        answers=("winner",),
    ),
    Layout(
        name="deepeval-arena",
        title="DeepEval arena test cases",
        needs=("contestants",),
        uses=dict.fromkeys(("contestants", "winner"), _NO_SIDE),
        refusal="DeepEval draws the order of the contestants inside the metric and does not keep it, so a lean cannot "
        "be seen",
    ),
    Layout(
        name="langsmith",
        title="LangSmith pairwise feedback",
        needs=("comparative_experiment_id",),
        uses=dict.fromkeys(("run_id", "score"), _NO_SIDE),
        refusal="LangSmith's pairwise feedback gives each run a score and does not keep which run was shown first, so "
        "a lean cannot be seen",
    ),
    Layout(
        name="chosen-rejected",
        title="chosen and rejected answers (TRL, UltraFeedback, hh-rlhf, RewardBench)",
        needs=("chosen", "rejected"),
        uses=dict.fromkeys(("chosen", "rejected"), _NO_SIDE),
        refusal="the columns chosen and rejected (as in TRL, UltraFeedback, hh-rlhf, RewardBench) say which answer "
        "won, but neither on which side it stood nor who judged: a lean cannot be seen in them; go back to the data "
        "they were made from",
    ),
    Layout(
        name="mturk",
        title="Amazon Mechanical Turk batch results (CSV)",
        needs=("HITId", "WorkerId"),
        annotator=("WorkerId",),
        guess=("Input.", "Answer."),
        task="HITId",
        uses={"Input.*": "items", "Answer.*": "answer"},
        supports=_NAMED,
        lacks=(
            "One order of a task is shown to all its workers unless the task says otherwise: state --sides random if "
            "drawn.",
        ),
    ),
    Layout(
        name="prolific",
        title="survey of Prolific participants",
        needs=(_PARTICIPANT,),
        annotator=(_PARTICIPANT,),
        guess=("", ""),
        uses={"other columns": "items and answer, by their names and values"},
        supports=_NAMED,
        lacks=_NO_COIN,
    ),
    Layout(
        name="lm-eval",
        title="lm-evaluation-harness samples",
        needs=("doc_id", "doc", "filtered_resps"),
        annotator=("@folders",),
        guess=("doc.", ""),
        answers=("filtered_resps[0]",),
        pattern=r"^\W*(left|right|first|second|tie|[ABC12])\b",
        task="doc_id",
        uses={"doc": "items: the two fields that differ in the side only"},
        supports=_NAMED,
        lacks=("Tasks that do not compare two texts are refused.",),
    ),
)
