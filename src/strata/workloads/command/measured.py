# SPDX-License-Identifier: Apache-2.0
"""The metrics of a workload `command`, from its time or its output by pattern or JSON path, and its rate."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, nearest
from strata.model.find import REACHED, OpenLoop
from strata.model.metric import Better, Metric, MetricSpec
from strata.model.workload import Outputs, StepOutput, unreadable
from strata.units import NS_PER_S
from strata.words import listed
from strata.workloads.keys import key

Unit = Literal["1/s", "B/s", "ns", "B", "1"]

LOAD_TIME: Final = "load_ns"
"""The metric that every workload `command` has: the time of all commands of ``load`` together."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,60}", re.ASCII)
_EITHER: Final = ("B", "1")
"""Units whose direction the study says; of rates more is better, of times less."""
_SIGN: Final = "a metric of the study's own"
SPECS: Final = (
    MetricSpec(LOAD_TIME, "ns", "lower", "all commands of `load` together"),
    MetricSpec("<name>", "ns", "lower", f"{_SIGN}: a time"),
    MetricSpec("<name>", "1/s", "higher", f"{_SIGN}: operations a second"),
    MetricSpec("<name>", "B/s", "higher", f"{_SIGN}: bytes a second"),
    *(
        MetricSpec("<name>", unit, better, f"{_SIGN}: {what}")
        for unit, what in (("B", "an amount of data"), ("1", "a number"))
        for better in get_args(Better)
    ),
)


class MetricTable(BaseModel):
    """One metric: from the time of commands, or with `regex` or `json` from their output."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: StrictStr = key(
        ..., "Its name: lower-case letters, digits and _, with the unit last", "requests_per_s"
    )
    unit: Unit = key("ns", "Its unit; with `operations` it is 1/s, unless B/s is given", "1/s")
    better: Better | None = key(
        None, "Whether more or less of a metric of unit B or 1 is better; default: `lower`", "higher"
    )
    of: StrictStr | None = key(
        None, "The name of its command, of `load` or `end`; default: all commands of `load`", "clone"
    )
    regex: StrictStr | None = key(
        None,
        "A regular expression (RE2) with one group around the number; of several matches in the output "
        "the last counts",
        "throughput: ([0-9.]+)",
    )
    json_path: StrictStr | None = key(
        None,
        "Keys and indices, joined by dots, that lead to the number in the output: a JSON document, or lines "
        "of which the last that has it counts",
        "latency.p99",
        alias="json",
    )
    operations: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1e18)] | StrictStr | None = key(
        None, "What the commands do (or their bytes): the metric is that over their time", 10000
    )
    factor: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1e18)] = key(
        1, "What the number of `regex` or `json` is multiplied by: 1e6 makes nanoseconds of milliseconds", 1e6
    )
    headline: StrictBool | None = key(
        None, "Whether a report shows it first; default: the first metric of the list only", True
    )

    @property
    def shown_unit(self) -> Unit:
        return "1/s" if self.operations is not None and self.unit == "ns" else self.unit

    @property
    def direction(self) -> Better:
        return self.better or ("higher" if self.shown_unit.endswith("/s") else "lower")

    def diagnostics(self, commands: Collection[str], variables: Mapping[str, object]) -> Iterator[Diagnostic]:
        """The mistakes of the table, where ``commands`` are the names that `of` may have."""
        if not _NAME.fullmatch(self.name) or self.name == LOAD_TIME:
            remedy = "lower-case letters, digits and _, such as requests_per_s; load_ns is there already"
            yield Diagnostic(f'a metric cannot be called "{self.name[:60]}"', remedy=remedy, key="name")
        if self.of is not None and self.of not in commands:
            cause = f'no command of `load` or `end` is called "{self.of[:60]}"'
            yield Diagnostic(cause, remedy=nearest(self.of, commands), key="of")
        sources = [each for each in ("regex", "json_path", "operations") if getattr(self, each) is not None]
        if len(sources) > 1:
            cause = "a metric has one source"
            yield Diagnostic(cause, remedy="keep one of regex, json and operations; without any it is a time")
        elif not sources and self.unit != "ns":
            cause = f"a time is in ns, and not in {self.unit}"
            yield Diagnostic(cause, remedy="add regex, json or operations, or leave the unit out", key="unit")
        elif sources == ["operations"] and not self.shown_unit.endswith("/s"):
            yield Diagnostic("operations over time are a rate", remedy="write 1/s or B/s", key="unit")
        wanted = "higher" if self.shown_unit.endswith("/s") else "lower"
        if self.shown_unit not in _EITHER and self.direction != wanted:
            cause = f"of {self.shown_unit} {wanted} is better"
            yield Diagnostic(cause, remedy="leave it out, or take the unit 1", key="better")
        yield from self._source_diagnostics(variables)

    def _source_diagnostics(self, variables: Mapping[str, object]) -> Iterator[Diagnostic]:
        if isinstance(self.operations, str) and not isinstance(variables.get(self.operations), int | float):
            cause = f'no variable "{self.operations[:60]}" is a number'
            yield Diagnostic(cause, remedy="write a number, or the name of a variable", key="operations")
        if self.json_path is not None and not all(self.json_path.split(".")):
            yield Diagnostic("the path has an empty part", remedy='such as "latency.p99"', key="json")
        if self.regex is not None:
            from strata.database import found_by  # noqa: PLC0415  DuckDB loads slowly

            try:
                groups = re.compile(self.regex).groups
                found_by(self.regex, "")
            except (re.error, RecursionError, OverflowError, ValueError) as error:
                remedy = "write it for RE2, which has no looking ahead or behind and no back references"
                yield Diagnostic(f"it is no regular expression: {error}", remedy=remedy, key="regex")
            else:
                if groups != 1:
                    cause = f"it has {groups} groups"
                    remedy = "put ( ) around the number; (?: ) is no group"
                    yield Diagnostic(cause, remedy=remedy, key="regex")

    def read(self, outputs: Outputs, steps: Sequence[str], variables: Mapping[str, object]) -> Metric:
        """The metric of these steps; a `RunError` if their output does not have it."""
        found = [outputs.step(step) for step in steps]
        if self.regex is not None or self.json_path is not None:
            value = self._printed(found, steps) * self.factor
        else:
            time_ns = sum(each.duration_ns for each in found)
            count = variables[self.operations] if isinstance(self.operations, str) else self.operations
            if count is None:
                value = float(time_ns)
            elif not time_ns:
                raise unreadable(steps[-1], f"{self.name}: its commands took no time", "")
            else:
                assert isinstance(count, int | float)
                value = count * NS_PER_S / time_ns
        return Metric(
            name=self.name,
            value=float(value),
            unit=self.shown_unit,
            better=self.direction,
            headline=bool(self.headline),
            steps=tuple(steps) if self.of is not None else (),
        )

    def _printed(self, found: Sequence[StepOutput], steps: Sequence[str]) -> float:
        texts = [text for each in found for text in (each.stdout, each.stderr)]
        if self.regex is not None:
            from strata.database import found_by  # noqa: PLC0415  DuckDB loads slowly

            what = f"nothing matches {self.regex!r}"
            groups = [group for text in texts if text for group in found_by(self.regex, text)]
            number: Any = groups[-1].replace(",", "") if groups else None
        else:
            path = (self.json_path or "").split(".")
            numbers = [each for text in texts for each in _at(text, path)]
            what, number = f"no JSON has {self.json_path}", numbers[-1] if numbers else None
        try:
            if number is not None and not isinstance(number, bool):
                return float(number)
        except (TypeError, ValueError):
            what = f"{str(number)[:60]!r} is no number"
        raise unreadable(
            steps[-1], f"the metric {self.name} is missing: {what}", "\n".join(filter(None, texts))
        )

    def __str__(self) -> str:
        return self.name


def _at(text: str, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path: of the whole text as JSON, or else of each line that is JSON."""
    for document in (text, *text.splitlines()):
        try:
            value = json.loads(document)
        except (ValueError, RecursionError):
            continue
        try:
            for each in path:
                value = value[int(each)] if isinstance(value, list) else value[each]
        except (KeyError, IndexError, TypeError, ValueError):
            continue
        yield value
        if document is text:
            return


_USE: Final = re.compile(r"\$(?:\{rate\}|rate\b)")


def rate_diagnostics(
    load: OpenLoop, texts: Iterable[str], variables: Container[str], metrics: Sequence[MetricTable]
) -> Iterator[Diagnostic]:
    """The mistakes of `rate` and `find`; one of the ``texts`` has to pass the rate on to a program."""
    if load.rate_per_s is None:
        return
    if "rate" in variables:
        cause = "there are two rates, and the variable hides the key"
        yield Diagnostic(cause, remedy="leave `rate` out of `variables`", key="rate")
    elif not any(map(_USE.search, texts)):
        cause = "no command of `load` uses ${rate}, so that no program gets the rate"
        remedy = "give it to a program that can keep a rate, such as --rate=${rate}, or leave `rate` out"
        yield Diagnostic(cause, remedy=remedy, key="rate")
    if load.find is None:
        return
    times = [each.name for each in metrics if each.shown_unit == "ns"]
    if load.find.metric not in times:
        cause = f'"{load.find.metric[:60]}" is no time of `metrics`, so that no probe can keep the target'
        remedy = f"`metrics` has {listed(times)}" if times else "add a latency that the program prints"
        yield Diagnostic(cause, remedy=remedy, key="find")
    if not any(each.name in REACHED for each in metrics):
        cause = "`metrics` does not say which rate the program reached, and a program that lags would pass"
        remedy = f"add one called {' or '.join(REACHED)}"
        yield Diagnostic(cause, remedy=remedy, key="find")
