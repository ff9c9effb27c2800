"""Every endpoint beside its OpenAPI document: requests made from it and against it, and bodies of all kinds.

What is made up comes from schemathesis, the same on every run. No answer is a 500, and each is one that the
document names, of the type and shape that it names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from tests.support.gateway import GatewayProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests
    from schemathesis import Case

    from tests.support.broker import BrokerProcess

ENDLESS = "^/v1/((cluster|topics/[^/]+)/events|traffic/heatmap/stream)$"
"""Streams that go on until somebody leaves; they have tests of their own."""
EXAMPLES = int(os.environ.get("PENSTOCK_SCHEMA_EXAMPLES", "8"))
"""Of each operation, right ones and wrong ones."""
OPERATIONS_MIN = 30
NAMES = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


@pytest.fixture(scope="module")
def gateway(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    options = ("--limit", "kafka_seconds_max=5")
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), shared_broker.bootstrap, *options) as process:
        yield process


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    import requests

    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def operations(gateway: GatewayProcess) -> list[Any]:
    """What the gateway's own document names. Only the process that runs these tests imports schemathesis."""
    import schemathesis

    document = schemathesis.openapi.from_dict(gateway.get("/openapi.json").json())
    return [each.ok() for each in document.exclude(path_regex=ENDLESS).get_all_operations()]


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_document_is_kept(
    gateway: GatewayProcess,
    session: requests.Session,
    operations: list[Any],
    subtests: pytest.Subtests,
    mode: str,
) -> None:
    assert len(operations) > OPERATIONS_MIN
    for operation in operations:
        with subtests.test(operation.label):
            keeps_its_word(gateway, session, operation, mode)


def keeps_its_word(gateway: GatewayProcess, session: requests.Session, operation: Any, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checked = [CHECKS.get_one(name) for name in NAMES]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    def check(case: Case) -> None:
        response = case.call(base_url=gateway.url, session=session, timeout=30)
        assert response.status_code != 500, response.text
        case.validate_response(response, checks=checked)

    try:
        check()
    except Unsatisfiable:
        assert mode == "negative", "only what takes no parameters has no wrong ones"


POSTS = (
    "/topics",
    "/producer/register",
    "/consumer/register",
    "/producer/produce",
    "/v1/topics",
    "/v1/cluster/kill",
    "/v1/traffic/positions",
)


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(POSTS), body=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_bodies_that_are_anything(gateway: GatewayProcess, path: str, body: bytes) -> None:
    answer = gateway.request("POST", path, content=body)
    assert 400 <= answer.status_code < 500 or answer.status_code == 503, answer.text
    assert answer.json()["status"] == "failure"


FIELDS = st.dictionaries(
    st.sampled_from(["topic", "topic_name", "producer_id", "consumer_id", "message", "request_id", "name"]),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.just([]),
)


@settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(POSTS), body=FIELDS)
def test_fields_that_are_anything(gateway: GatewayProcess, path: str, body: dict[str, Any]) -> None:
    answer = gateway.post(path, body)
    assert answer.status_code != 500, answer.text
    assert answer.json()["status"] in ("success", "failure")


def test_the_page_for_people(gateway: GatewayProcess) -> None:
    page = gateway.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    for path in gateway.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert "<script" not in page.text
    assert "http://" not in page.text


@pytest.mark.parametrize("name", ["", "\x00", "no.such.setting", "©"])
def test_settings_that_librdkafka_does_not_take(gateway: GatewayProcess, topic: str, name: str) -> None:
    gateway.post("/topics", {"topic_name": topic})
    answer = gateway.request("PATCH", f"/v1/topics/{topic}", json={"config": {name: "x"}})
    assert answer.status_code == 400, answer.text
    created = gateway.post("/v1/topics", {"name": f"{topic}-2", "config": {name: "x"}})
    assert created.status_code == 400, created.text
