# SPDX-License-Identifier: Apache-2.0
"""``strata advise``: which stack for which use, from a study's results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from strata.advice.advise import advise as advise_on
from strata.advice.asked import posed
from strata.advice.uses import Use, bundled_uses, chosen_uses, read_uses, requiring, reweighted
from strata.cli.output import notes, print_json, print_text, stdout
from strata.cli.parameters import AsJson, AsMarkdown, FromResults, Musts, option
from strata.diagnostics.names import require_known
from strata.errors import StudyError
from strata.model.asked import REQUIREMENTS, Requirement
from strata.plan.catalogue import catalogue
from strata.printable import plain
from strata.report import advice_tables as tables
from strata.report.advice_text import headline, lead, reasons
from strata.report.document import Document, markdown_of
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.study import gather


def advise(  # noqa: PLR0917  typer makes options of them
    results: FromResults,
    use: Annotated[list[str] | None, option("Only this use; may be repeated.", "NAME")] = None,
    uses: Annotated[Path | None, option("Your uses: these, or with --use also Strata's.", "FILE")] = None,
    weights: Annotated[list[str] | None, option("Set a weight; may be repeated.", "NAME=NUMBER")] = None,
    must: Musts = None,
    evidence: Annotated[
        bool, option("Also all figures, warnings, what to measure next.", "--evidence")
    ] = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Advise which stack to choose for which use, and why.

    A use, such as a mail server, weighs kinds of measurement; the weights are data and can be changed. The
    stacks are ranked by their weighted mean times, with an interval over the seeds; the geometric
    mean must agree. Of stacks within ±3 % of one another it says to take either. Where evidence is missing it
    chooses none and says which trial would settle it. What the study asks (its keys `use` and `must`) comes
    first; --must adds to it, and takes `durable` and the probes of `strata capabilities`.

    Examples:
        strata advise results/showcase
        strata advise results/showcase --use mail-server
        strata advise results/showcase --use mail-server --evidence
        strata advise results/showcase --use mail-server --weights delivery=90 --weights mailboxes=10
        strata advise results/showcase --use mail-server --must disk-loss
        strata list uses --write uses.toml        # to be changed
        strata advise results/showcase --uses uses.toml --markdown
    """
    chosen = adjusted_uses(asked_uses(uses, use or []), weights or [], asked_musts(must or []))

    folder = ResultsFolder.open(results)
    chosen = posed(folder.study(), chosen, chosen=bool(use or uses))
    _print_advice(folder, chosen, evidence=evidence, as_markdown=as_markdown, as_json=as_json)


def _print_advice(
    folder: ResultsFolder, chosen: list[Use], *, evidence: bool, as_markdown: bool, as_json: bool
) -> None:
    advices = advise_on(gather(folder), chosen, read_capabilities(folder))
    if as_json:
        print_json(
            advices=[
                {
                    **plain(each),
                    "lead": lead(each),
                    "headline": headline(each),
                    "reasons": dict(reasons(each)),
                }
                for each in advices
            ]
        )
    elif as_markdown:
        print_text(markdown_of(tables.advices(advices, in_full=True)))
    else:
        stdout().print(Document([*tables.advices(advices, in_full=evidence)]))
        if evidence and any(each.leaders for each in advices):
            notes().print(tables.LEGEND, style="dim")


def asked_uses(file: Path | None, names: list[str]) -> list[Use]:
    """The uses of ``--uses`` and ``--use``; by default all of the file's, or of Strata's."""
    own = {} if file is None else read_uses(file, catalogue())
    return chosen_uses({**bundled_uses(catalogue()), **own}, names or own)


def asked_musts(names: Sequence[str]) -> list[Requirement]:
    """The capabilities of ``--must``, each once. Raises StudyError."""
    require_known("capability", names, REQUIREMENTS, "--must")
    known: dict[str, Requirement] = {each: each for each in REQUIREMENTS}
    return [known[name] for name in dict.fromkeys(names)]


def adjusted_uses(uses: list[Use], weights: list[str], musts: Sequence[str]) -> list[Use]:
    """The uses with the weights of ``--weights`` and what must hold. Raises StudyError."""
    if weights and len(uses) != 1:
        raise StudyError("weights belong to one use", place="--weights", remedy="name one use with --use")
    return [requiring(reweighted(each, weights), musts) for each in uses]
