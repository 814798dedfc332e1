"""The vocabulary: what answers say in ten languages, negative wording, grades, and what is left to be asked."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from fdr_core import ConfigurationError
from fdr_core.inputs.label_studio.words import (
    answer_map,
    answers_from_text,
    meaning_of,
    names_side,
    numbered_names,
    one_pair,
    option_for,
)


@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        (("Left", "Right"), (1, -1)),
        (("Response A", "Response B", "Both are equally good"), (1, -1, 0)),
        (("answer 2 is better", "answer 1 is better", "neither"), (-1, 1, 0)),
        (("The first one", "The second one", "Same"), (1, -1, 0)),
        (("good", "bad"), None),
        (("Left", "Right", "Maybe"), None),
        (("A", "tie"), None),
    ],
)
def test_texts_of_choices_speak_of_a_side_or_are_not_guessed(
    answers: tuple[str, ...], outcomes: tuple[int, ...] | None
) -> None:
    found = answer_map(answers)
    if outcomes is None:
        assert found.unknown or not found.has_both_sides
    else:
        assert found.outcomes == dict(zip(answers, outcomes, strict=True))


@pytest.mark.parametrize(
    ("fields", "pair"),
    [
        (["prompt", "answer_a", "answer_b"], ("answer_a", "answer_b")),
        (["question", "responseLeft", "responseRight"], ("responseLeft", "responseRight")),
        (["x", "y"], ("x", "y")),
        (["prompt", "x", "y"], None),
        (["text1", "text2", "image1", "image2"], None),
    ],
)
def test_fields_of_the_two_items_are_guessed_by_their_names(fields: list[str], pair: tuple[str, str] | None) -> None:
    assert one_pair(fields) == pair


#: By language: left, right, tie, both, neither.
WORDED = {
    "en": ("Left is better", "I prefer the right one", "About the same", "Both are good", "Neither"),
    "zh": ("左边更好", "右边更好", "一样好", "都很好", "都不好"),
    "hi": ("बायाँ बेहतर है", "दायाँ बेहतर है", "दोनों बराबर", "दोनों अच्छे हैं", "कोई नहीं"),
    "es": ("La izquierda es mejor", "La derecha", "Empate", "Ambas", "Ninguna"),
    "ar": ("اليسار أفضل", "اليمين أفضل", "تعادل", "كلاهما جيد", "لا أحد منهما"),
    "fr": ("Celle de gauche", "Celle de droite", "À égalité", "Les deux", "Aucune des deux"),
    "pt": ("A da esquerda é melhor", "A da direita é melhor", "Empate", "Ambas", "Nenhuma das duas"),
    "ru": ("Левый лучше", "правый лучше", "Ничья", "Оба хороши", "ни один"),
    "de": ("Links ist besser", "Rechts", "Unentschieden", "Beide gut", "Keine von beiden"),
    "ja": ("左の方が良い", "右の方が良い", "引き分け", "両方良い", "どちらも良くない"),
}
SKIPS = ("Skip", "跳过", "छोड़ें", "Omitir", "تخطي", "Passer", "Pular", "Пропустить", "Überspringen", "スキップ")


@pytest.mark.parametrize("language", WORDED)
def test_words_of_ten_languages_are_understood(language: str) -> None:
    assert list(answer_map(WORDED[language]).outcomes.values()) == [1.0, -1.0, 0.0, 0.0, 0.0]


def test_every_language_has_words_for_skipping() -> None:
    assert answer_map(SKIPS).skips == frozenset(SKIPS)
    data = json.loads(files("fdr_core.inputs.label_studio").joinpath("words.json").read_text(encoding="utf-8"))
    for language in WORDED:
        assert {"left", "right", "tie", "both", "neither", "skip", "better", "worse", "not"} <= set(data[language])


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("A is worse", -1), ("Reject left", -1), ("Not A", -1), ("B loses", 1), ("B ist schlechter", 1), ("A不好", -1),
        ("La réponse B est pire", 1), ("A is better than B", 1), ("B is worse than A", 1), ("BよりAが良い", 1),
        ("A比B好", 1), ("Prefiero A a B", 1), ("2 is better", -1), ("model_a", 1), ("responseRight", -1),
        ("A<B", -1), ("A = B", 0), ("The right one", -1), ("[[B]]", -1),
    ],
)  # fmt: skip
def test_negative_and_comparing_words_keep_their_direction(answer: str, outcome: int) -> None:
    meaning = meaning_of(answer)
    assert meaning is not None
    assert meaning.side == outcome


@pytest.mark.parametrize(
    "answer",
    [
        "Maybe",
        "good",
        "A is not worse",
        "A is less harmful",
        "A is right",
        "Left is the right one",
        "7",
        "Ez a jobb",
        "",
    ],
)
def test_words_that_say_nothing_or_two_things_are_not_guessed(answer: str) -> None:
    assert meaning_of(answer) is None


@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        (("A is much better", "A is slightly better", "B is slightly better", "B is much better"), (1, 0.5, -0.5, -1)),
        (("A>>B", "A>B", "A=B", "B>A", "B>>A"), (1, 0.5, 0, -0.5, -1)),
        (("A++", "A+", "B+", "B++"), (1, 0.5, -0.5, -1)),
        (("A viel besser", "A besser", "A etwas besser", "B etwas besser"), (1, 2 / 3, 1 / 3, -1 / 3)),
        (("slightly left", "slightly right"), (0.5, -0.5)),
        (("Left", "Right"), (1, -1)),
    ],
)
def test_grades_are_spread_evenly(answers: tuple[str, ...], outcomes: tuple[float, ...]) -> None:
    assert answer_map(answers).outcomes == pytest.approx(dict(zip(answers, outcomes, strict=True)))


def test_what_was_guessed_is_marked_and_what_is_unknown_named() -> None:
    found = answer_map(("A is worse", "B is much worse", "Meh"))
    assert set(found.guessed) == {"A is worse", "B is much worse"}
    assert found.unknown == ("Meh",)


def test_meanings_that_are_given_count_and_the_rest_is_guessed() -> None:
    found = answer_map(("Left", "Right", "Meh"), {"meh": "skip", "right": 0.5})
    assert (found.outcomes, found.skips) == ({"Left": 1.0, "Right": 0.5}, frozenset({"Meh"}))


def test_scale_between_two_given_ends_is_filled_in_equal_steps() -> None:
    found = answer_map("12345", {"1": "right", "5": "left"}, reads_words=False)
    assert found.outcomes == {"1": -1.0, "2": -0.5, "3": 0.0, "4": 0.5, "5": 1.0}
    assert answer_map("12", reads_words=False).unknown == ("1", "2")


def test_words_no_longer_on_offer_are_read_where_they_are_plain() -> None:
    found = answer_map(("Left", "Right"))
    assert [found.read(word) for word in ("LEFT ", "B", "second is better", "A much better", "Meh")] == [
        1.0, -1.0, -1.0, None, None,
    ]  # fmt: skip
    assert found.is_skip("überspringen")


def test_option_can_be_pasted_and_is_read_back() -> None:
    option = option_for(["Meh", "B rocks", "well, A"])
    assert option == "--answers 'Meh=tie,B rocks=right,\"well, A\"=left'"
    assert answers_from_text(option.split("'")[1]) == {"Meh": "tie", "B rocks": "right", "well, A": "left"}


@pytest.mark.parametrize("text", ["A", "=left", "{", '["A"]', "A=up", "A=2"])
def test_option_that_says_nothing_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected|JSON"):
        answer_map((), answers_from_text(text))


def test_side_that_an_unknown_answer_names_is_seen() -> None:
    assert [names_side(word) for word in ("B rocks", "left!", "Meh", "A or B")] == [-1, 1, 0, 0]


def test_series_of_fields_is_found() -> None:
    assert numbered_names(["q", "image1", "image2", "image3"]) == ["image1", "image2", "image3"]
    assert numbered_names(["respone", "resptwo", "respthree"]) == ["respone", "resptwo", "respthree"]
    assert numbered_names(["a_x", "b_x", "c_y"]) == ["a_x", "b_x"]
    assert numbered_names(["q", "p"]) == []
