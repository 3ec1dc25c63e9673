"""Run the migrations on the connection that `service/db/migrate.py` hands over."""

from alembic import context

from service.db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
