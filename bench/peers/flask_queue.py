"""The topic queue as one would write it: Flask, SQLAlchemy, PostgreSQL, a thread for each connection.

A pool with a connection for each thread, prepared statements by the driver, one INSERT and one COMMIT a
message. Waitress serves it: unlike Flask's own server it keeps connections, and 32 threads are faster than 8.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from flask import Flask, Response, jsonify, request
from sqlalchemy import BigInteger, ForeignKey, String, create_engine, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_ignore
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from waitress import serve

THREADS: Final = 32


class Base(DeclarativeBase):
    pass


class Topic(Base):
    __tablename__ = "topics"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(249), unique=True)


class Producer(Base):
    __tablename__ = "producers"
    id: Mapped[int] = mapped_column(primary_key=True)
    topic_id: Mapped[int] = mapped_column(ForeignKey("topics.id"))


class Consumer(Base):
    __tablename__ = "consumers"
    id: Mapped[int] = mapped_column(primary_key=True)
    topic_id: Mapped[int] = mapped_column(ForeignKey("topics.id"))
    position: Mapped[int] = mapped_column(BigInteger, default=0)


class Message(Base):
    __tablename__ = "messages"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    topic_id: Mapped[int] = mapped_column(ForeignKey("topics.id"), index=True)
    body: Mapped[str]


def create_app(url: str) -> Flask:
    engine = create_engine(url, pool_size=THREADS, max_overflow=0)
    Base.metadata.create_all(engine)
    sessions = sessionmaker(engine, expire_on_commit=False)
    app = Flask(__name__)

    @app.get("/topics")
    def topics() -> Response:
        with sessions() as session:
            return success(topics=list(session.scalars(select(Topic.name).order_by(Topic.name))))

    @app.post("/topics")
    def create_topic() -> tuple[Response, int]:
        with sessions.begin() as session:
            added = session.execute(
                insert_or_ignore(Topic).values(name=request.json["topic_name"]).on_conflict_do_nothing()
            )
            return (success(message="created"), 201) if added.rowcount else failure(409, "it exists")

    @app.post("/producer/register")
    def register_producer() -> Response:
        with sessions.begin() as session:
            return success(producer_id=register(session, Producer, request.json["topic"]))

    @app.post("/consumer/register")
    def register_consumer() -> Response:
        with sessions.begin() as session:
            return success(consumer_id=register(session, Consumer, request.json["topic"]))

    @app.post("/producer/produce")
    def produce() -> Response | tuple[Response, int]:
        given = request.json
        with sessions.begin() as session:
            topic = topic_of(session, Producer, given["producer_id"])
            if topic is None:
                return failure(404, "there is no such producer")
            if topic.name != given["topic"]:
                return failure(403, "not a producer of that topic")
            added = insert(Message).values(topic_id=topic.id, body=given["message"]).returning(Message.id)
            offset = session.execute(added).scalar_one()
        return success(partition=0, offset=offset)

    @app.get("/consumer/consume")
    def consume() -> Response | tuple[Response | str, int]:
        identity = int(request.args["consumer_id"])
        with sessions.begin() as session:
            consumer = session.get(Consumer, identity, with_for_update=True)
            if consumer is None:
                return failure(404, "there is no such consumer")
            unread = (Message.topic_id == consumer.topic_id) & (Message.id > consumer.position)
            found = session.scalar(select(Message).where(unread).order_by(Message.id).limit(1))
            if found is None:
                return "", 204
            session.execute(update(Consumer).where(Consumer.id == identity).values(position=found.id))
            return success(message=found.body, offset=found.id)

    @app.get("/size")
    def size() -> Response | tuple[Response, int]:
        with sessions() as session:
            consumer = session.get(Consumer, int(request.args["consumer_id"]))
            if consumer is None:
                return failure(404, "there is no such consumer")
            unread = (Message.topic_id == consumer.topic_id) & (Message.id > consumer.position)
            return success(size=session.scalar(select(func.count()).where(unread)))

    return app


def topic_of(session: Session, kind: type[Producer], identity: int) -> Topic | None:
    return session.scalar(select(Topic).join(kind, kind.topic_id == Topic.id).where(kind.id == identity))


def register(session: Session, kind: type[Producer | Consumer], name: str) -> int:
    session.execute(insert_or_ignore(Topic).values(name=name).on_conflict_do_nothing())
    topic_id = session.scalar(select(Topic.id).where(Topic.name == name))
    added = kind(topic_id=topic_id)
    session.add(added)
    session.flush()
    return added.id


def success(**fields: Any) -> Response:
    return jsonify(status="success", **fields)


def failure(status: int, message: str) -> tuple[Response, int]:
    return jsonify(status="failure", message=message), status


if __name__ == "__main__":
    serve(create_app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), threads=THREADS)
