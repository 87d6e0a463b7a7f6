"""What executors and workers of Celery have in common: the application, its settings, and its names in Redis."""

from __future__ import annotations

from typing import Any

from turnout.futures.errors import MissingExtra

try:
    import celery
    import redis
    import redis.backoff
    import redis.retry
except ImportError as error:
    raise MissingExtra("Celery", "celery") from error

TASK = "turnout.call"
#: Seconds after which Redis hands a call to another worker, when the one that has it does not say that it still does.
UNSEEN = 30


def make_app(broker: str, queue: str) -> Any:
    """All that it keeps in Redis has a name that begins with `prefix`. Celery itself reads only JSON."""
    app = celery.Celery("turnout", broker=broker, set_as_current=False, fixups=[])
    app.conf.update(
        task_serializer="json", accept_content=["json"], task_ignore_result=True, task_default_queue=queue,
        broker_transport_options={
            "global_keyprefix": prefix(queue), "visibility_timeout": UNSEEN, "socket_keepalive": True,
            "socket_connect_timeout": 5, "socket_timeout": 30,
        },
        broker_connection_retry_on_startup=True, broker_connection_max_retries=None, broker_pool_limit=None,
        task_acks_late=True, task_acks_on_failure_or_timeout=True, task_create_missing_queues=True,
        worker_prefetch_multiplier=1, worker_send_task_events=False, task_send_sent_event=False,
        worker_hijack_root_logger=False, worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        event_queue_ttl=60, control_queue_ttl=60,
    )  # fmt: skip
    return app


def prefix(queue: str) -> str:
    return f"turnout:{queue}:"


def large_name(queue: str, number: str) -> str:
    """Under which Redis keeps a call that is too large to go through Celery, which would copy it many times."""
    return f"{prefix(queue)}call:{number}"


def connect(broker: str) -> Any:
    """One connection, made when it is used, and anew after each `redis.RedisError`, which it never hides. For one
    thread."""
    never = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    return redis.Redis.from_url(
        broker, single_connection_client=True, retry=never, socket_connect_timeout=5, socket_timeout=30,
        socket_keepalive=True,
    )  # fmt: skip
