"""The shop's own tables, and its engine. A migration tool would create them; here the service does when it starts."""

import os

from sqlalchemy import CheckConstraint, ForeignKey, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

DSN = os.environ.get("DATABASE_URL", "postgresql:///shop")


class Base(DeclarativeBase):
    """The base of the shop's models."""


class Item(Base):
    """What is sold."""

    __tablename__ = "items"

    name: Mapped[str] = mapped_column(primary_key=True)
    stock: Mapped[int] = mapped_column(CheckConstraint("stock >= 0", name="items_in_stock"))


class Order(Base):
    """An order of a customer."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str] = mapped_column(ForeignKey("items.name"))
    email: Mapped[str]


class Mail(Base):
    """What was mailed: in real life the mail service's own list."""

    __tablename__ = "mails"

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    order_id: Mapped[int]
    recipient: Mapped[str]


def make_engine() -> AsyncEngine:
    """An engine on the shop's database; the driver may be psycopg as well."""
    return create_async_engine(make_url(DSN).set(drivername="postgresql+asyncpg"))


async def install_tables(engine: AsyncEngine) -> None:
    """Create the shop's tables, if they do not exist."""
    async with engine.begin() as connection:
        # `if not exists` alone does not protect two processes that start at the same time.
        await connection.execute(text("select pg_advisory_xact_lock(hashtext('shop'))"))
        await connection.run_sync(Base.metadata.create_all)
        stock = [{"name": "teapot", "stock": 1000}, {"name": "unicorn", "stock": 0}]
        await connection.execute(insert(Item).values(stock).on_conflict_do_nothing())
