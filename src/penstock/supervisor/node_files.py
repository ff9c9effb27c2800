"""The file of each node, as `penstock broker` reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.hosts import is_loopback

if TYPE_CHECKING:
    from penstock.supervisor.folder import ClusterFolder
    from penstock.supervisor.layout import ClusterLayout, NodeSpec

DELETE = "\x7f"


def write_node_files(folder: ClusterFolder, layout: ClusterLayout, shared: Mapping[str, Any]) -> None:
    """`shared`: what all nodes are told, by the keys of the file."""
    for node in layout.nodes:
        path = folder.node(node.id).settings
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name("node.toml.tmp")
        temporary.touch(mode=0o600)  # the address of a database may hold a password
        temporary.write_text(toml(node_table(folder, layout, node, shared)), encoding="utf-8")
        temporary.replace(path)


def node_table(
    folder: ClusterFolder, layout: ClusterLayout, node: NodeSpec, shared: Mapping[str, Any]
) -> dict[str, Any]:
    rack = layout.rack_of(node)
    return {
        "id": node.id,
        "roles": list(node.roles),
        "listeners": node.address,
        "controllers": layout.voters,
        "data": str(folder.node(node.id).data),
        "cluster_id": layout.cluster_id,
        "supervisor": str(folder.path),
        "http_port": 0,
        **({} if rack is None else {"rack": rack}),
        **({} if is_loopback(node.host) else {"insecure": True}),
        **shared,
    }


def toml(table: Mapping[str, Any]) -> str:
    """Plain values, lists of them, and tables one level deep: all that the file of a node has."""
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{toml_value(name)} = {toml_value(value)}" for name, value in plain.items()]
    for name, inner in table.items():
        if isinstance(inner, Mapping):
            lines += ["", f"[{toml_value(name)}]"]
            lines += [f"{toml_value(key)} = {toml_value(value)}" for key, value in inner.items()]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    if isinstance(value, str):
        # The strings of JSON are strings of TOML, but for one character that only TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace(DELETE, "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"{value!r} has no place in the file of a node")
