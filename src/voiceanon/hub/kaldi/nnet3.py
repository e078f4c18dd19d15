"""Raw nnet3 models: nodes, components and their fields.

Source: specification sheet of the x-vector family, section 14.

A model is a few lines of text that say how nodes are wired, and the components that the nodes use.
What a component holds depends on its type; `FIELDS` lists that, and a type or a field that does not
stand there is an error, since nothing tells where an unknown one would end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from voiceanon.errors import WeightsError
from voiceanon.hub.kaldi.stream import Stream, open_stream

Value: TypeAlias = Tensor | float | int | bool | tuple[float, ...] | tuple[int, ...]
"""A field of a component."""


class Field(NamedTuple):
    """One field of a component.

    Attributes:
        name: Without the angle brackets.
        kind: One letter per value: (f)loat, (d)ouble, (i)nteger, (b)ool, (v)ector, (m)atrix,
            (I)nteger list; empty for a token without a value, which stands for true.
        optional: Whether files may lack it.
    """

    name: str
    kind: str
    optional: bool = False


def _fields(text: str) -> tuple[Field, ...]:
    """Reads a row of the table: ``Name kind`` and ``Name kind?``, and ``Name ?`` for a bare one."""
    fields = []
    for entry in text.split(", "):
        name, kind = entry.split(" ")
        fields.append(Field(name, kind.removesuffix("?"), kind.endswith("?")))
    return tuple(fields)


_UPDATABLE = "LearningRateFactor f?, IsGradient b?, MaxChange f?, L2Regularize f?, LearningRate f, "
_NONLINEAR = (
    "Dim i, BlockDim i?, ValueAvg v, DerivAvg v, Count d, OderivRms v?, OderivCount d?, "
    "NumDimsSelfRepaired d?, NumDimsProcessed d?, SelfRepairLowerThreshold f?, "
    "SelfRepairUpperThreshold f?, SelfRepairScale f?"
)
_NO_OP = _NONLINEAR.replace("ValueAvg v, DerivAvg v, Count d", "ValueAvg v?, DerivAvg v?, Count d?")

FIELDS: Mapping[str, tuple[Field, ...]] = {
    name: _fields(text)
    for name, text in {
        "NaturalGradientAffineComponent": _UPDATABLE
        + "LinearParams m, BiasParams v, RankIn i, RankOut i, OrthonormalConstraint f?, "
        "UpdatePeriod i, NumSamplesHistory f, Alpha f, MaxChangePerSample f?, IsGradient b?, "
        "UpdateCount f?, ActiveScalingCount f?, MaxChangeScaleStats f?",
        "AffineComponent": _UPDATABLE + "LinearParams m, BiasParams v, IsGradient b?",
        "FixedAffineComponent": "LinearParams m, BiasParams v",
        "LinearComponent": _UPDATABLE
        + "Params m, OrthonormalConstraint f?, UseNaturalGradient b, RankInOut ii, Alpha f, "
        "NumSamplesHistory f, UpdatePeriod i",
        "TdnnComponent": _UPDATABLE
        + "TimeOffsets I, LinearParams m, BiasParams v, OrthonormalConstraint f, "
        "UseNaturalGradient b, NumSamplesHistory f, AlphaInOut ff?, Alpha f?, RankInOut ii",
        "RectifiedLinearComponent": _NONLINEAR,
        "LogSoftmaxComponent": _NONLINEAR,
        "BatchNormComponent": "Dim i, BlockDim i, Epsilon f, TargetRms f, TestMode b, Count d, "
        "StatsMean v, StatsVar v",
        "GeneralDropoutComponent": "Dim i, BlockDim i, TimePeriod i, DropoutProportion f, "
        "SpecAugmentMaxProportion f?, SpecAugmentMaxRegions i?, TestMode ?, Continuous ?",
        "NoOpComponent": _NO_OP + ", BackpropScale f?",
        "StatisticsExtractionComponent": "InputDim i, InputPeriod i, OutputPeriod i, "
        "IncludeVarinance b",
        "StatisticsPoolingComponent": "InputDim i, InputPeriod i, LeftContext i, RightContext i, "
        "NumLogCountFeatures i, OutputStddevs b, VarianceFloor f",
    }.items()
}
"""Fields by type of component, in the order of the file."""

EPSILON = 1e-3
"""What is added to the variances of batch normalisation: Kaldi's default, kept by all recipes."""

_LARGEST_NORMALISED = 1 << 20
"""Values of all normalisations of a model; published models have less than 30,000."""

_PARAMETERS = {"LinearParams": "weight", "Params": "weight", "BiasParams": "bias"}
"""Ends of entries by field."""

_DESCRIPTOR_TOKEN = re.compile(r"\s*([A-Za-z_][\w.\-]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[(),])")
_SETTING = re.compile(r"(?:^|(?<!\s)\s+)([A-Za-z][\w-]*)=")
"""Begins only where a run of spaces does: else a long run would be searched from each of them."""

_NODE_KINDS = ("input-node", "component-node", "dim-range-node", "output-node")
_DEEPEST = 32
"""Brackets in brackets; published models stay below 5."""


@dataclass(frozen=True)
class Descriptor:
    """What a node takes as its input.

    Attributes:
        name: Of a node, or of an operation such as ``"Append"``, ``"Offset"`` or ``"Sum"``.
        arguments: Of an operation: descriptors, and numbers where those are due; empty for a node.
    """

    name: str
    arguments: tuple[Descriptor | float, ...] = ()


@dataclass(frozen=True)
class Node:
    """One line of the wiring.

    Attributes:
        line: As it stands in the file.
        kind: ``"input-node"``, ``"component-node"``, ``"dim-range-node"`` or ``"output-node"``.
        name: Its name.
        settings: All ``key=value`` of the line, such as ``"component"`` and ``"dim"``.
        input: What it takes; ``None`` for inputs.
    """

    line: str
    kind: str
    name: str
    settings: Mapping[str, str]
    input: Descriptor | None


@dataclass(frozen=True)
class Component:
    """One component.

    Attributes:
        name: Its name.
        type: Such as ``"TdnnComponent"``.
        fields: By name, in the order of the file; those that the file lacks are not there. Floats
            and doubles are numbers, tokens without a value are ``True``.
    """

    name: str
    type: str
    fields: Mapping[str, Value]

    def tensor(self, name: str) -> Tensor:
        """A field that is a vector or a matrix."""
        value = self.fields[name]
        if not isinstance(value, Tensor):
            raise TypeError(f"{self.name}: {name} is no tensor")
        return value


@dataclass(frozen=True)
class Nnet3:
    """A model.

    Attributes:
        path: Where it was read, for messages.
        nodes: In the order of the file.
        components: By name, in the order of the file.
    """

    path: Path
    nodes: tuple[Node, ...]
    components: Mapping[str, Component]

    def node(self, name: str) -> Node:
        """The node of a name.

        Raises:
            WeightsError: There is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise WeightsError(f"{self.path}: there is no node {name!r}; take the published file.")


def read_nnet3(path: Path) -> Nnet3:
    """Reads a raw nnet3 model (``.raw``), without a transition model in front.

    Args:
        path: A verified file.

    Raises:
        WeightsError: It is no such model, is damaged, or holds a component of an unknown type.
    """
    stream = open_stream(path)
    stream.begin()
    if stream.peek().startswith("<T"):
        stream.fail("found a transition model (.mdl); a raw model (.raw) is due,")
    stream.expect("<Nnet3>")
    if stream.line():
        stream.fail("expected the end of the first line")
    nodes = []
    while line := stream.line():
        nodes.append(_node(line, stream))
    stream.expect("<NumComponents>")
    components: dict[str, Component] = {}
    for _ in range(stream.integer()):
        component = _component(stream)
        if component.name in components:
            stream.fail(f"there are two components {component.name!r}")
        components[component.name] = component
    stream.expect("</Nnet3>")
    stream.end()
    return Nnet3(path, tuple(nodes), components)


def nnet3_entries(model: Nnet3) -> dict[str, Tensor]:
    """Parameters of a model by component, as a state dictionary.

    Args:
        model: Of `read_nnet3`.

    Returns:
        Under ``<component>.weight`` and ``.bias`` the parameters of affine and linear components
        (no bias where there is none), under ``.running_mean`` and ``.running_var`` the statistics
        of batch normalisations, repeated where the file holds one block of several.

    Raises:
        WeightsError: A batch normalisation has another epsilon than 1e-3 or a target RMS that is
            not 1, which the entries cannot say.
    """
    _check_normalised(model)
    entries: dict[str, Tensor] = {}
    for name, component in model.components.items():
        for field, end in _PARAMETERS.items():
            if field in component.fields and component.tensor(field).numel():
                entries[f"{name}.{end}"] = component.tensor(field)
        if component.type == "BatchNormComponent":
            mean, variance = _statistics(component, model.path)
            entries[f"{name}.running_mean"] = mean
            entries[f"{name}.running_var"] = variance
    return entries


def _check_normalised(model: Nnet3) -> None:
    """Bounds what is repeated: a few bytes of a file can claim any number of values."""
    kind = "BatchNormComponent"
    sizes = [part.fields["Dim"] for part in model.components.values() if part.type == kind]
    total = sum(size for size in sizes if isinstance(size, int) and size > 0)
    if total > _LARGEST_NORMALISED:
        raise WeightsError(
            f"{model.path}: its normalisations claim to have {total} values; take the published "
            "file."
        )


def _statistics(component: Component, path: Path) -> tuple[Tensor, Tensor]:
    fields = component.fields
    size, block = fields["Dim"], fields["BlockDim"]
    mean, variance = component.tensor("StatsMean"), component.tensor("StatsVar")
    if not isinstance(size, int) or not isinstance(block, int):
        raise TypeError(f"{component.name}: sizes are no integers")
    if not 0 < block <= size or size % block:
        raise WeightsError(f"{path}: {component.name} has {size} values in blocks of {block}.")
    if len(mean) != block or len(variance) != block:
        raise WeightsError(
            f"{path}: {component.name} has {len(mean)} means and {len(variance)} variances, "
            f"{block} are due; take the published file."
        )
    wanted = torch.tensor([EPSILON, 1.0], dtype=torch.float32)
    found = torch.tensor([fields["Epsilon"], fields["TargetRms"]], dtype=torch.float32)
    if not torch.equal(wanted, found):
        raise WeightsError(
            f"{path}: {component.name} has epsilon {found[0]:g} and target RMS {found[1]:g}; "
            f"{EPSILON:g} and 1 are known. Take the published file."
        )
    return mean.repeat(size // block), variance.clamp(min=0).repeat(size // block)


def _component(stream: Stream) -> Component:
    stream.expect("<ComponentName>")
    name = stream.token()
    bracketed = stream.peek()
    type_ = bracketed.removeprefix("<").removesuffix(">")
    if bracketed != f"<{type_}>" or type_ not in FIELDS:
        stream.fail(
            f"the component {name!r} is of the unknown type {bracketed}; known are "
            f"{', '.join(FIELDS)};"
        )
    stream.token()
    fields: dict[str, Value] = {}
    for field in FIELDS[type_]:
        if stream.peek() == f"<{field.name}>":
            stream.token()
            fields[field.name] = _value(stream, field.kind)
        elif not field.optional:
            stream.fail(
                f"the component {name!r} ({type_}): expected <{field.name}>, found "
                f"{stream.peek()!r},"
            )
    if stream.peek() != f"</{type_}>":
        stream.fail(f"the component {name!r} ({type_}) has an unknown field {stream.peek()!r}")
    stream.token()
    return Component(name, type_, fields)


def _value(stream: Stream, kind: str) -> Value:
    if len(kind) > 1:
        values = [_value(stream, letter) for letter in kind]
        return tuple(value for value in values if isinstance(value, int | float))
    if kind in ("f", "d"):
        return stream.real()
    if kind == "i":
        return stream.integer()
    if kind == "b":
        return stream.flag()
    if kind == "v":
        return stream.vector()
    if kind == "m":
        return stream.matrix()
    return stream.integers() if kind == "I" else True


def _node(line: str, stream: Stream) -> Node:
    kind, _, rest = line.partition(" ")
    if kind not in _NODE_KINDS:
        stream.fail(f"expected a line of nodes, found {line[:80]!r}")
    # A value runs up to the next key, since descriptors hold spaces.
    parts = _SETTING.split(rest)
    settings = dict(zip(parts[1::2], parts[2::2], strict=True))
    if parts[0].strip() or "name" not in settings:
        stream.fail(f"expected key=value and a name, found {line[:80]!r}")
    text = settings.get("input", settings.get("input-node"))
    descriptor = None if text is None else parse_descriptor(text, stream)
    if descriptor is None and kind != "input-node":
        stream.fail(f"expected the input of a node, found {line[:80]!r}")
    return Node(line, kind, settings["name"], settings, descriptor)


def parse_descriptor(text: str, stream: Stream) -> Descriptor:
    """Reads what a node takes, such as ``"Append(Offset(input, -1), input)"``.

    Args:
        text: The text.
        stream: Where it came from, for messages.

    Raises:
        WeightsError: It is none.
    """
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _DESCRIPTOR_TOKEN.match(text, place)
        if match is None:
            stream.fail(f"expected a descriptor, found {text[:80]!r}")
        tokens.append(match.group(1))
        place = match.end()
    descriptor, used = _descriptor(tokens, 0, 0, stream)
    if used != len(tokens) or not isinstance(descriptor, Descriptor):
        stream.fail(f"expected one descriptor, found {text[:80]!r}")
    return descriptor


def _descriptor(
    tokens: Sequence[str], place: int, depth: int, stream: Stream
) -> tuple[Descriptor | float, int]:
    """The descriptor or number that begins at a token, and where it ends."""
    if place >= len(tokens) or depth > _DEEPEST or tokens[place] in "(),":
        stream.fail(f"expected a descriptor, found {' '.join(tokens)[:80]!r}")
    word = tokens[place]
    if not (word[0].isalpha() or word[0] == "_"):
        return float(word), place + 1
    arguments: list[Descriptor | float] = []
    place += 1
    if place < len(tokens) and tokens[place] == "(":
        while place < len(tokens) and tokens[place] != ")":
            argument, place = _descriptor(tokens, place + 1, depth + 1, stream)
            arguments.append(argument)
            if place < len(tokens) and tokens[place] not in ("),"):
                break
        if place >= len(tokens) or tokens[place] != ")":
            stream.fail(f"expected a closing bracket, found {' '.join(tokens)[:80]!r}")
        place += 1
    return Descriptor(word, tuple(arguments)), place
