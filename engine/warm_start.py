"""Starting from another net's checkpoint: what becomes of every variable is told before anything is trained."""

import collections
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from engine.checkpoints import StoredWeights, check_scopes, in_scopes
from engine.errors import UserError
from engine.progress import say
from engine.slim_net import SlimNet

# The table's rows, in their order. "fresh": known not to fit, and left at its initial value on purpose.
_OUTCOMES = ("restored", "taken over", "fresh", "excluded", "missing", "wrong shape")
# A row of these is only counted by scope; of the others every variable is named.
_EXPECTED = ("restored", "excluded")
# More are not read one by one.
_MANY_LAYERS = 16


class TakeOver(NamedTuple):
    """How a variable is filled from something else than the variable of its name and shape.

    Attributes:
        note: what is done, for the table.
        fill: the variable's initial value -> its value; None leaves the initial one.
    """

    note: str
    fill: Callable[[np.ndarray], np.ndarray] | None


# (checkpoint, scope of the net in it, name within the net, shape) -> a way to fill it; None: it is read by its name.
TakeOverRule = Callable[[StoredWeights, str, str, tuple[int, ...]], TakeOver | None]


class Match(NamedTuple):
    """What becomes of one variable in a warm start.

    Attributes:
        name: the variable's.
        outcome: one of `_OUTCOMES`.
        note: for the table.
        fill: as in `TakeOver`; None where the initial value stays.
    """

    name: str
    outcome: str
    note: str = ""
    fill: Callable[[np.ndarray], np.ndarray] | None = None


def source_scope(net_scope: str, stored: StoredWeights, asked: str) -> str:
    """The net's scope in a checkpoint: as asked for, else as the checkpoint's manifest says, else the net's own."""
    return asked or stored.manifest.get("scope", net_scope)


def warm_start(
    net: SlimNet,
    stored: StoredWeights,
    *,
    model_scope: str = "",
    exclude_scopes: Sequence[str] = (),
    ignore_missing: bool = False,
    take_over: TakeOverRule | None = None,
) -> list[Match]:
    """Takes over weights from another checkpoint, tells it as a table, and returns what became of every variable.

    Args:
        model_scope: the net's scope inside the checkpoint (default: as `source_scope` says).
        exclude_scopes: prefixes of variables that keep their initial values.
        ignore_missing: variables that the checkpoint lacks keep their initial values instead of being an error.
        take_over: for variables that are filled in another way than by their names.

    Raises:
        UserError: a variable is missing or has another shape, or nothing at all fits; nothing was changed.
    """
    check_scopes("checkpoint_exclude_scopes", exclude_scopes, net, net.variables_by_name)
    scope = source_scope(net.scope, stored, model_scope)
    matches = [
        Match(name, "excluded") if in_scopes(name, exclude_scopes) else _match(net, stored, name, scope, take_over)
        for name in net.variables_by_name
    ]
    for line in table(stored.prefix, matches):
        say(line)
    _refuse_bad(stored, scope, matches, ignore_missing)
    for match in matches:
        if match.fill is not None:
            variable = net.variables_by_name[match.name]
            variable.assign(match.fill(variable.numpy()))
    return matches


def _match(net: SlimNet, stored: StoredWeights, name: str, scope: str, take_over: TakeOverRule | None) -> Match:
    inner, here = name.removeprefix(net.scope).lstrip("/"), tuple(net.variables_by_name[name].shape)
    if take_over is not None and (found := take_over(stored, scope, inner, here)) is not None:
        return Match(name, "taken over" if found.fill else "fresh", found.note, found.fill)
    source = f"{scope}/{inner}".lstrip("/")
    if source not in stored.shapes:
        return Match(name, "missing", f"not in the checkpoint under {scope}")
    if here != (there := stored.shapes[source]):
        return Match(name, "wrong shape", f"{there} in the checkpoint, {here} here")
    return Match(name, "restored", source, lambda _: stored.read(source))


def table(prefix: str, matches: Sequence[Match]) -> list[str]:
    """Lines: what went as it should counted by scope, everything else by name with its note."""
    filled = sum(match.fill is not None for match in matches)
    lines = [f"{filled} of {len(matches)} variables are taken from {prefix}"]
    for outcome in _OUTCOMES:
        found = [match for match in matches if match.outcome == outcome]
        if found and outcome in _EXPECTED:
            lines.append(f"  {outcome:<11}  {len(found):>4}  {_by_scope([match.name for match in found])}")
        elif found:
            lines.append(f"  {outcome:<11}  {len(found):>4}")
            lines += [f"      {line}" for line in _by_note(found)]
    return lines


def _by_note(matches: Sequence[Match]) -> list[str]:
    """A line for each note, with the variables that have it."""
    names: dict[str, list[str]] = {}
    for match in matches:
        names.setdefault(match.note, []).append(match.name)
    return [f"{_by_layer(named)}: {note}" for note, named in names.items()]


def _by_layer(names: Sequence[str]) -> str:
    """net/a/b/weights, net/a/b/biases, net/c/weights -> "net/a/b (2), net/c/weights"; by scope where the layers are many."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.rpartition("/")[0], []).append(name)
    if len(layers) > _MANY_LAYERS:
        return _by_scope(names)
    return ", ".join(found[0] if len(found) == 1 else f"{layer} ({len(found)})" for layer, found in layers.items())


def _by_scope(names: Sequence[str]) -> str:
    """net/conv4/conv4_1/weights, net/conv4/conv4_2/weights -> "net/conv4 (2)"."""
    counts = collections.Counter("/".join(name.split("/")[:-1][:2]) for name in names)
    return ", ".join(f"{scope} ({count})" for scope, count in counts.items())


def _refuse_bad(stored: StoredWeights, scope: str, matches: Sequence[Match], ignore_missing: bool) -> None:
    by_outcome = {outcome: [match for match in matches if match.outcome == outcome] for outcome in _OUTCOMES}
    wrong, missing = by_outcome["wrong shape"], by_outcome["missing"]
    if wrong:
        listed = "; ".join(f"{match.name}: {match.note}" for match in wrong)
        raise UserError(
            f"{stored.prefix}: {len(wrong)} variables have another shape ({listed}); leave them out with {_exclude(wrong)}"
        )
    if not any(match.fill for match in matches):
        scopes = sorted({name.split("/")[0] for name in stored.shapes if "/" in name})
        raise UserError(
            f"{stored.prefix}: nothing in it fits this net, looked for as {scope or 'no scope'}; its scopes are"
            f" {', '.join(scopes[:8]) or 'none'}: see --checkpoint_model_scope"
        )
    if missing and not ignore_missing:
        listed = _by_layer([match.name for match in missing])
        raise UserError(
            f"{stored.prefix}: lacks {listed}; leave them out with {_exclude(missing)} or pass --ignore_missing_vars"
        )


def _exclude(matches: Sequence[Match]) -> str:
    """The flag that leaves these variables out, ready to be copied."""
    return "--checkpoint_exclude_scopes=" + ",".join(dict.fromkeys(match.name.rpartition("/")[0] for match in matches))
