"""One word, one thing: words with another meaning here, American spelling, and long lines in documents."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENDINGS = (".py", ".md", ".html", ".js", ".toml", ".yml", ".yaml", ".ipynb")
#: Written by others, or the history of what things were called; results.md is made from cells by `make results`.
LEFT_OUT = (
    "CHANGELOG.md",
    "backend/evenhand/web/static/charts.js",
    "docs/results",
    "tests/browser/vendor/",
    "tests/data/",
    "tests/test_vocabulary.py",
)
#: Each word that has another meaning here, with what else the line or the path may hold: the exceptions.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    # What is said about one annotator is a finding.
    r"verdicts?": (
        r"finding|not seen|first, *second|first,second|choice.{0,5}verdict",
        r"test_results|inputs/(?:(?:test_)?layouts|known_logs)",
    ),
    # A flag that holds over all runs together is lasting.
    r"persistent flags?|flags? persists?": (r"lasting flag",),
    # A level is a position on a path; logs have levels in Python's own words.
    r"access levels?|(?:error|confidence|significance) levels?|at level (?:alpha|q|\.\d)": (),
    # Designs are audited, dependencies and judges checked.
    r"audit(?:s|ed|ing)? (?:the |of )?(?:LLM|judges?|dependenc|packages?|logs?|security)": (),
    r"(?:pip|security|dependency) audits?": (),
    # Methods are compared in results; evidence is about one annotator.
    r"benchmarks[./]evidence|make evidence|evidence (?:run|suite|document)s?": (),
    # British spelling, apart from names of others.
    r"analyz(?:ed|es|ing|er)": (),
    r"(?:normaliz|randomiz|summariz|recogniz|organiz|anonymiz|penaliz|standardiz|generaliz|emphasiz)\w*": (
        r"derandomize|unicodedata\.normalize",
    ),
    r"behaviors?|favors?|neighbors?|judgments?|colored|gray": (
        r"MT-bench|FastChat|pairwise judgments|human_judgments|\bcm\.|axes|css|JudgeBench",
        r"inputs/(?:(?:test_)?(?:layouts|formats)|known_logs)",
    ),
}


def _files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are ours cannot be told")
    names = listed.stdout.splitlines()
    return [name for name in names if name.endswith(ENDINGS) and not name.startswith(LEFT_OUT)]


def _uses(pattern: str, exceptions: tuple[str, ...]) -> list[str]:
    word = re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE)
    allowed = [re.compile(exception) for exception in exceptions]
    found = []
    for name in _files():
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1):
            if word.search(line) and not any(rule.search(line) or rule.search(name) for rule in allowed):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    return found


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_word_with_another_meaning_here_is_not_used(pattern: str) -> None:
    assert _uses(pattern, FORBIDDEN[pattern]) == []


def test_word_that_is_forbidden_is_found_where_it_stands() -> None:
    assert any("tests/core/inputs/test_formats.py" in use for use in _uses("verdicts?", ()))


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| (?!word \|)([^|-][^|]*) \| ([^|]+) \|([^|]*)\|$", GLOSSARY, re.MULTILINE)
#: Words of the glossary's last column that the patterns above do not look for.
AVOIDED = sorted({word.strip() for _, _, words in TERMS for word in words.split(",") if word.strip()} - {"look"})


def test_glossary_has_at_most_forty_terms_in_order() -> None:
    terms = [term for term, _, _ in TERMS]
    assert 30 <= len(terms) <= 40
    assert terms == sorted(terms, key=str.casefold)
    assert {"taste", "settle", "remedy", "verdict"} <= set(AVOIDED)


@pytest.mark.parametrize("word", AVOIDED)
def test_word_that_the_glossary_avoids_is_in_no_document(word: str) -> None:
    """Prose only: code keeps names of its own. The settings of a project and the API are told in code spans."""
    use = re.compile(rf"\b{word.removesuffix('y')}(?:y|ies|s|d)?\b", re.IGNORECASE)
    found = []
    for path in DOCUMENTS:
        if path.name in ("glossary.md", "results.md", "CHANGELOG.md", "tried.md"):
            continue
        prose = re.sub(r"```.*?```|<!--.*?-->|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        found += [f"{path.name}: {one.group()}" for one in use.finditer(prose)]
    assert found == []


DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "results" / "tried.md"])


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.name != "results.md"], ids=lambda path: path.name
)
def test_document_lines_stay_below_120_characters(document: Path) -> None:
    """Rows of tables and lines that are one address cannot be broken."""
    lines = enumerate(document.read_text(encoding="utf-8").splitlines(), start=1)
    assert [n for n, line in lines if len(line) >= 120 and not line.startswith("|") and " " in line.strip()] == []
