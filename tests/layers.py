"""The layers of the product: which packages each holds, what it may use, and who breaks that."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.source_tree import Import, SourceTree, is_within


@dataclass(frozen=True)
class Layer:
    """
    Modules that stand on the same floor.

    Attributes
    ----------
    packages : modules and packages, with everything inside; the longest name that fits a module decides.
    exactly : modules by their full name, without what is inside.
    uses : names of the layers whose modules may be imported, besides the own one.
    libraries : third-party packages that may be imported.
    lazily : third-party packages that only a function may import, so that everybody else never loads them.
    exceptions : libraries, and parts of the standard library, that single modules may import on purpose.
    not_from_stdlib : parts of the standard library that are not for this layer.
    """

    name: str
    packages: tuple[str, ...]
    exactly: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_from_stdlib: tuple[str, ...] = ("sqlite3",)


# No environment, clock, log, global randomness or network in the mathematics.
IMPURE = ("os", "logging", "random", "time", "datetime", "socket", "sqlite3", "subprocess", "urllib")

CORE = ("numerics", "tables", "core edges", "core report", "core commands")
LAYERS = (
    # fdr_core: a module that nobody names here falls under the strictest rule, arrays only.
    Layer(
        "numerics",
        ("fdr_core", "fdr_core.other_leans.placebos", "fdr_core.other_leans.regression"),
        uses=("tables",),
        libraries=("numpy", "scipy"),
        lazily=("cvxpy",),
        exceptions={"fdr_core.judges.record": ("time",)},  # a log of answers says when they were given
        not_from_stdlib=IMPURE,
    ),
    Layer(
        "tables",
        ("fdr_core.comparisons", "fdr_core.inputs"),
        uses=("numerics",),
        libraries=("numpy", "pandas"),
        lazily=("pyarrow",),
        exceptions={"fdr_core.inputs.alpaca_eval": ("random",)},  # repeats the coins that alpaca_eval flipped
        not_from_stdlib=IMPURE,
    ),
    Layer(
        "core edges",
        (
            "fdr_core.annotator_table",
            "fdr_core.detection",
            "fdr_core.engines",
            "fdr_core.opinions",
            "fdr_core.other_leans",
            "fdr_core.plot",
            "fdr_core.consensus.ranking",
            "fdr_core.judges.preferences",
        ),
        exactly=("fdr_core",),
        uses=("numerics", "tables"),
        libraries=("numpy", "scipy", "pandas"),
        lazily=("ibis", "matplotlib", "pyarrow", "pyspark"),
        not_from_stdlib=IMPURE,
    ),
    Layer(
        "core report",
        ("fdr_core.report", "fdr_core.judges.gate_report", "fdr_core.judges.preference_texts"),
        uses=("numerics", "tables", "core edges"),
        libraries=("jinja2", "numpy", "pandas"),
    ),
    Layer(
        "core commands",
        ("fdr_core.commands", "fdr_core.terminal", "fdr_core.judges.pytest_gate"),
        uses=("numerics", "tables", "core edges", "core report"),
        libraries=("click", "numpy", "pandas", "rich"),
        exceptions={"fdr_core.judges.pytest_gate": ("pytest",)},  # a plugin that pytest itself loads
    ),
    # backend: a module that stands flat in it belongs nowhere until somebody says where.
    Layer(
        "domain and payloads",
        (
            "evenhand.domain",
            "evenhand.errors",
            "evenhand.json_values",
            "evenhand.judged",
            "evenhand.logs",
            "evenhand.private_files",
            "evenhand.project_config",
            "evenhand.pseudonyms",
            "evenhand.settings",
            "evenhand.label_studio.label_config",
            "evenhand.label_studio.payloads",
            "evenhand.label_studio.review_fields",
            "evenhand.label_studio.side_words",
        ),
        exactly=("evenhand",),
        uses=CORE,
        libraries=("pydantic",),
    ),
    Layer(
        "store",
        ("evenhand.store",),
        uses=("domain and payloads", "numerics"),
        libraries=("sqlalchemy", "alembic", "psycopg"),
        not_from_stdlib=(),
    ),
    Layer(
        "use cases",
        (
            "evenhand.administer",
            "evenhand.ingest",
            "evenhand.label_studio",
            "evenhand.projects",
            "evenhand.publish",
            "evenhand.runs",
        ),
        uses=("domain and payloads", "store", *CORE),
        libraries=("numpy", "pandas", "requests"),
        exceptions={
            "evenhand.runs.stored_sums": ("pyarrow", "psycopg"),  # archives are summed where they lie
        },
    ),
    Layer(
        "web",
        ("evenhand.web",),
        uses=(
            "domain and payloads",
            "store",
            "use cases",
            "numerics",
            "core edges",
            "core report",
        ),  # options are declared in the core
        libraries=("flask", "werkzeug", "jinja2", "prometheus_client", "requests"),
        exceptions={"evenhand.web.errors": ("gunicorn",)},  # gunicorn raises while a view reads the body
    ),
    Layer(
        "server",
        ("evenhand.server",),
        uses=("domain and payloads", "store", "use cases", "web", *CORE),
        libraries=("gunicorn", "prometheus_client", "requests"),
    ),
    Layer(
        "commands",
        ("evenhand.commands",),
        uses=("domain and payloads", "store", "use cases", "web", "server", *CORE),
        libraries=("click", "rich", "numpy", "pandas", "requests"),
    ),
    Layer(
        "entry points",
        ("evenhand._wsgi", "evenhand.app", "evenhand.cli", "evenhand.sdk_model"),
        uses=("domain and payloads", "store", "use cases", "web", "server", "commands", *CORE),
        libraries=("flask", "werkzeug", "click", "label_studio_ml"),
    ),
)


def layer_of(module: str) -> Layer | None:
    """Find a module's layer by its full name, else by the longest package that holds it."""
    named = [layer for layer in LAYERS if module in layer.exactly]
    if named:
        return named[0]
    fits = [(len(package), layer) for layer in LAYERS for package in layer.packages if is_within(module, package)]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def violations(tree: SourceTree) -> list[str]:
    """Say which modules stand in no layer, and which imports a layer does not allow."""
    lost = [f"{module} stands in no layer; name its package in {__name__}" for module in tree.files if _is_lost(module)]
    wrong = [found for found in tree.imports if not _is_lost(found.module) and not _is_allowed(found, tree)]
    return lost + [f"{found}, which {_name(found.module)} must not" for found in wrong]


def _is_lost(module: str) -> bool:
    return layer_of(module) is None


def _name(module: str) -> str:
    layer = layer_of(module)
    return layer.name if layer else "nobody"


def _is_allowed(found: Import, tree: SourceTree) -> bool:
    layer = layer_of(found.module)
    assert layer is not None, found
    target = tree.module_of(found.target)
    if target is not None:
        return _name(target) in (layer.name, *layer.uses)
    top = found.target.split(".")[0]
    if top in layer.exceptions.get(found.module, ()):
        return True
    if top in sys.stdlib_module_names or top == "__future__":
        return top not in layer.not_from_stdlib
    return top in layer.libraries or (top in layer.lazily and not found.at_import)
