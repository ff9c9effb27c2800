"""A broker's life against a controller that says what the test wants, and a metadata log that it fills."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import lifecycle as lifecycle_module
from penstock.broker.lifecycle import DecommissionedError, Lifecycle
from penstock.config import ClusterLimits, NodeConfig
from penstock.controller.active import HeartbeatReply
from penstock.storage import MemoryStorage, StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.broker_heartbeat import HeartbeatRequest, LoadData
from tests.unit.broker.in_process import WAIT_S_MAX, eventually

if TYPE_CHECKING:
    from penstock.metadata.brokers import Registration

ME, EPOCH = 2, 7
OFFLINE = frozenset({uuid.UUID(int=8)})
LOAD = LoadData(0.5, 0.6, 1.5, 10, 20, ())
SESSION_MS = 200
FENCED = HeartbeatReply(is_caught_up=False, is_fenced=True, should_shut_down=False)
WELL = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
MAY_STOP = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=True)
CONFIG = NodeConfig(
    node_id=ME,
    roles=frozenset({"broker"}),
    controllers={1: ("127.0.0.1", 1)},
    cluster=ClusterLimits(broker_session_ms=SESSION_MS, broker_heartbeat_ms=1),
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_module, "RETRY_S", 0.002)
    monkeypatch.setattr(lifecycle_module, "GOODBYE_S_MAX", 0.05)


class World:
    """The way to the controller and this node's copy of the metadata, in one."""

    def __init__(self, config: NodeConfig = CONFIG) -> None:
        self.registrations: list[Registration] = []
        self.heartbeats: list[tuple[int, bool]] = []
        """(broker epoch, wants to stop)"""
        self.answers_register: list[int | ErrorCode] = [EPOCH]
        """The last one stays."""
        self.answers_heartbeat: list[HeartbeatReply | ErrorCode] = [WELL]
        self.is_known_at_once = True
        self.is_local = False
        self.failures: list[Exception] = []
        self.image = SimpleNamespace(brokers={})
        self.publisher = SimpleNamespace(published_offset=99)
        storage = MemoryStorage(uuid.UUID(int=5), node_id=ME, cluster_id="abc")
        parts: Any = (storage, self, self)
        self.lifecycle = Lifecycle(
            config, *parts, is_clean=True, on_failure=self.failures.append, offline=lambda: OFFLINE,
            load=lambda: LOAD,
        )  # fmt: skip

    async def register(self, registration: Registration, cluster_id: str | None) -> int:
        assert cluster_id == "abc"
        self.registrations.append(registration)
        epoch = answered(self.answers_register)
        if self.is_known_at_once:
            self.learn(epoch)
        return epoch

    def learn(self, epoch: int) -> None:
        self.image.brokers[ME] = SimpleNamespace(epoch=epoch)

    async def until(self, condition: Callable[[], bool]) -> None:
        await eventually(condition)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        assert (request.broker_id, request.current_metadata_offset) == (ME, 99)
        assert (request.offline, request.load) == (OFFLINE, LOAD)
        self.heartbeats.append((request.broker_epoch, request.want_shut_down))
        reply = answered(self.answers_heartbeat)
        assert isinstance(reply, HeartbeatReply)
        return reply


def answered(answers: list[Any]) -> Any:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, ErrorCode):
        raise ApiError(answer)
    return answer


def live(work: Callable[[World, Lifecycle], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await work(world, world.lifecycle)
        finally:
            await world.lifecycle.stop()

    asyncio.run(run())


async def begun(lifecycle: Lifecycle) -> None:
    await lifecycle.register("host", 9092)
    lifecycle.start()


async def more_heartbeats(world: World, count: int = 3) -> None:
    wanted = len(world.heartbeats) + count
    await eventually(lambda: len(world.heartbeats) >= wanted)


def test_registered_when_its_own_metadata_say_so() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.is_known_at_once = False
        world.learn(EPOCH - 1)  # an earlier process
        registering = asyncio.create_task(lifecycle.register("host", 9092))
        await eventually(lambda: bool(world.registrations))
        await asyncio.sleep(0.01)
        assert not registering.done()
        world.learn(EPOCH)
        await registering
        (sent,) = world.registrations
        assert (sent.broker_id, sent.host, sent.port, sent.is_clean) == (ME, "host", 9092, True)
        assert sent.storage_id == uuid.UUID(int=5)
        assert (lifecycle.broker_epoch, lifecycle.is_fenced, lifecycle.has_lease) == (EPOCH, True, False)

    live(work)


def test_unfenced_it_has_a_lease_for_a_while() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_heartbeat = [FENCED, FENCED, WELL]
        await begun(lifecycle)
        await lifecycle.until_unfenced()
        assert (lifecycle.is_fenced, lifecycle.has_lease) == (False, True)
        world.answers_heartbeat = [ErrorCode.request_timed_out]
        await eventually(lambda: not lifecycle.has_lease)
        assert not lifecycle.is_fenced, "nobody has said so"
        world.answers_heartbeat = [FENCED]
        await eventually(lambda: lifecycle.is_fenced)

    live(work)


@pytest.mark.parametrize("code", [ErrorCode.not_controller, ErrorCode.request_timed_out])
def test_a_controller_that_is_none_any_more_is_no_reason_to_register(code: ErrorCode) -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_register = [code, code, EPOCH]
        world.answers_heartbeat = [WELL, code, code, WELL]
        await begun(lifecycle)
        assert len(world.registrations) == 3
        await more_heartbeats(world, 6)
        assert len(world.registrations) == 3
        assert {epoch for epoch, _ in world.heartbeats} == {EPOCH}
        assert world.failures == []

    live(work)


def test_forgotten_by_the_controller_it_registers_again_as_the_same_process() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_register = [EPOCH, ErrorCode.not_controller, EPOCH + 10]
        world.answers_heartbeat = [WELL, ErrorCode.stale_broker_epoch, WELL]
        await begun(lifecycle)
        await eventually(lambda: (EPOCH + 10, False) in world.heartbeats)
        assert lifecycle.broker_epoch == EPOCH + 10
        assert len({registration.incarnation for registration in world.registrations}) == 1
        epochs = [epoch for epoch, _ in world.heartbeats]
        assert epochs == sorted(epochs), "no heartbeat of the earlier epoch after that"
        assert world.failures == []

    live(work)


def test_an_id_that_another_one_has_is_asked_for_until_a_dead_one_would_be_fenced() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_register = [ErrorCode.duplicate_broker_registration]
        began = asyncio.get_running_loop().time()
        with pytest.raises(StorageError, match="another broker runs under the same id"):
            await lifecycle.register("host", 9092)
        assert asyncio.get_running_loop().time() - began >= 2 * SESSION_MS / 1000
        assert len(world.registrations) > 2

    live(work)


def test_an_id_that_becomes_free_in_time() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_register = [ErrorCode.duplicate_broker_registration] * 3 + [EPOCH]
        await lifecycle.register("host", 9092)
        assert lifecycle.broker_epoch == EPOCH

    live(work)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (ErrorCode.duplicate_broker_registration, "another broker runs under the same id"),
        (ErrorCode.inconsistent_cluster_id, "its data belong to another cluster"),
    ],
)
def test_whose_place_was_taken_gives_up(code: ErrorCode, line: str) -> None:
    """While it was paused somebody else began to run under its id."""

    async def work(world: World, lifecycle: Lifecycle) -> None:
        await begun(lifecycle)
        await lifecycle.until_unfenced()
        world.answers_register = [code]
        world.answers_heartbeat = [ErrorCode.stale_broker_epoch]
        await eventually(lambda: bool(world.failures))
        (failure,) = world.failures
        assert isinstance(failure, StorageError)
        assert line in str(failure)
        sent = len(world.heartbeats)
        await asyncio.sleep(0.02)
        assert len(world.heartbeats) == sent, "it is silent from then on"

    live(work)


def test_a_decommissioned_broker_does_not_start() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_register = [ErrorCode.broker_id_not_registered]
        with pytest.raises(DecommissionedError, match="broker 2 was decommissioned"):
            await lifecycle.register("host", 9092)
        assert lifecycle.is_decommissioned
        assert len(world.registrations) == 1, "once is enough"

    live(work)


@pytest.mark.parametrize("is_unfenced", [True, False])
def test_a_broker_that_is_decommissioned_while_it_runs(is_unfenced: bool) -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.answers_heartbeat = [WELL if is_unfenced else FENCED]
        await begun(lifecycle)
        await more_heartbeats(world)
        world.answers_register = [ErrorCode.broker_id_not_registered]
        world.answers_heartbeat = [ErrorCode.stale_broker_epoch]
        await eventually(lambda: bool(world.failures))
        assert isinstance(world.failures[0], DecommissionedError)
        assert lifecycle.is_decommissioned
        await lifecycle.until_unfenced()  # nobody waits for what cannot come
        assert len(world.registrations) == 2

    live(work)


def test_it_stops_when_the_controller_agrees() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        await begun(lifecycle)
        await more_heartbeats(world)
        stopping = asyncio.create_task(lifecycle.stop())
        await eventually(lambda: (EPOCH, True) in world.heartbeats)
        assert not stopping.done()
        world.answers_heartbeat = [MAY_STOP]
        await stopping
        assert world.heartbeats[-1] == (EPOCH, True)

    live(work)


def test_the_wish_to_stop_does_not_wait_for_the_next_heartbeat() -> None:
    async def work() -> None:
        world = World(replace(CONFIG, cluster=ClusterLimits(broker_heartbeat_ms=60_000)))
        await begun(world.lifecycle)
        await eventually(lambda: len(world.heartbeats) == 1)
        world.answers_heartbeat = [MAY_STOP]
        await asyncio.wait_for(world.lifecycle.stop(), WAIT_S_MAX)
        assert world.heartbeats == [(EPOCH, False), (EPOCH, True)]

    asyncio.run(work())


def test_nor_does_what_is_out_of_service() -> None:
    async def work() -> None:
        world = World(replace(CONFIG, cluster=ClusterLimits(broker_heartbeat_ms=60_000)))
        await begun(world.lifecycle)
        await eventually(lambda: len(world.heartbeats) == 1)
        world.lifecycle.tell_soon()
        await eventually(lambda: len(world.heartbeats) == 2)
        world.answers_heartbeat = [MAY_STOP]
        await asyncio.wait_for(world.lifecycle.stop(), WAIT_S_MAX)

    asyncio.run(work())


def test_the_active_controller_still_answers_others_that_stop_with_it() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        world.is_local = True
        await begun(lifecycle)
        world.answers_heartbeat = [MAY_STOP]
        began = asyncio.get_running_loop().time()
        await lifecycle.stop()
        assert asyncio.get_running_loop().time() - began >= lifecycle_module.RETRY_S

    live(work)


def test_it_stops_without_a_controller_after_a_while() -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        await begun(lifecycle)
        world.answers_heartbeat = [ErrorCode.request_timed_out]
        await lifecycle.stop()
        sent = len(world.heartbeats)
        await asyncio.sleep(0.02)
        assert len(world.heartbeats) == sent

    live(work)


def test_a_fault_of_one_heartbeat_is_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World, lifecycle: Lifecycle) -> None:
        await begun(lifecycle)
        world.publisher.published_offset = 98  # which the controller of this test does not take
        await eventually(lambda: "heartbeat" in caplog.text)
        world.publisher.published_offset = 99
        await more_heartbeats(world)

    live(work)
