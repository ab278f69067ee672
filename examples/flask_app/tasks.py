"""The tasks of the shop. Plain functions run in threads of the worker."""

import logging

from sqlalchemy.orm import Session

from asyncq import task
from examples.flask_app.tables import Order, engine

log = logging.getLogger("shop")


@task
def confirm_order(order_id: int) -> None:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, order_id)
        log.info("mailing %s", order.email)
        order.is_confirmed = True
