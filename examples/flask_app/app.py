"""The service: an order and the job that confirms it are one transaction."""

from typing import Any

from flask import Flask, abort, request
from sqlalchemy.orm import Session

from asyncq import SyncClient
from examples.flask_app.tables import Order, engine
from examples.flask_app.tasks import confirm_order

app = Flask(__name__)
jobs = SyncClient(tasks=[confirm_order])


@app.post("/orders")
def place_order() -> tuple[dict[str, Any], int]:
    with Session(engine) as session, session.begin():
        order = Order(item=request.json["item"], email=request.json["email"])
        session.add(order)
        session.flush()  # now the order has its id
        job = jobs.add_job(confirm_order, order.id, connection=session)
        if order.item == "unicorn":
            abort(409, "sold out")  # rolls back the order and its job
        return {"order_id": order.id, "job_id": job.id}, 201


@app.get("/orders/<int:order_id>")
def show_order(order_id: int) -> dict[str, Any]:
    with Session(engine) as session:
        order = session.get(Order, order_id) or abort(404)
        return {"item": order.item, "is_confirmed": order.is_confirmed}
