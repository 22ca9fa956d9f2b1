"""The ASGI application of an instance: its router, with Flask behind it, and its life cycle."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from backend.http.access import access_control
from backend.http.asgi import Receive, Scope, Send
from backend.http.flask_app import create_flask_app
from backend.http.flask_bridge import flask_bridge
from backend.http.kiqr.raw_reads import RawReads
from backend.http.router import Router
from backend.instance.app import Instance
from backend.instance.constants import Constants
from backend.instance.settings import Settings
from backend.kafka.clients import kafka_clients
from backend.security.configuration import open_to_others, token_keys, unchecked_claims
from backend.server.interpreter import tune_interpreter
from model.kafka.admin import reason_of
from model.kafka.clients import closing
from model.problems import ConfigurationError
from model.views import Deployment

log = logging.getLogger(__name__)

# gunicorn's arbiter stops, too, if a worker exits with this code
EXIT_CANNOT_START = 3


def _exit(reason: str) -> None:
    log.critical("%s", reason)
    logging.shutdown()
    os._exit(EXIT_CANNOT_START)


class Application:
    """The router, Flask behind it, and the instance."""

    def __init__(
        self,
        settings: Settings,
        deployment: Deployment,
        constants: Constants,
        on_failure: Callable[[str], None] = _exit,
        on_wrong_setting: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_failure(reason)`: ends the process. `on_wrong_setting()`: called before that, if
        the process should not be started again with the same settings."""
        self._on_failure = on_failure
        self._on_wrong_setting = on_wrong_setting
        try:
            kafka = kafka_clients(deployment.kafka, settings.bootstrap_servers)
        except ConfigurationError as e:
            raise ConfigurationError(f"{settings.views}: {e}") from None
        try:
            with closing(AdminClient({**kafka.librdkafka, "log_level": 0})):
                pass  # the constructor has checked the settings
            self.instance = Instance(settings, deployment, kafka, constants, self._id_is_in_use)
        except KafkaException as e:
            # librdkafka checks its settings when a client is created; the original error may quote
            # a secret
            why = kafka.hide(reason_of(e))
            raise ConfigurationError(f"{settings.views}, [kafka]: {why}") from None
        context = self.instance.context
        self._raw_reads = RawReads(context)
        self._token_keys = token_keys(settings)
        if settings.is_open_to_others:
            log.warning("%s", open_to_others(settings))
        if unchecked := unchecked_claims(settings):
            log.warning("%s", unchecked)
        self._router = Router(
            context,
            flask_bridge(create_flask_app(context, self._raw_reads)),
            access_control(settings, self._token_keys, context.cluster),
        )
        # the worker uses these four attributes
        self.fast_path = self._router.fast_path
        self.send_timeout = constants.send_timeout
        self.request_timeout = constants.request_timeout
        self.certificates = context.certificates
        self._starting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._router(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    def drain(self) -> float:
        """For the worker: end streams; returns the time (s) after which it may stop accepting
        requests."""
        seconds = self.instance.drain()
        self._router.drain()
        return seconds

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message: dict[str, Any] = dict(await receive())
            if message["type"] == "lifespan.startup":
                if self._token_keys is not None:
                    self._token_keys.start()
                self._router.start()
                self._raw_reads.start(self._router.keys, self._router.scatter_gather)
                # start in the background and answer 503 until then, because a server that does not
                # accept connections seems to hang
                self._starting = asyncio.create_task(self._start())
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._starting is not None:
                    self._starting.cancel()
                await asyncio.to_thread(self.instance.stop)
                await self._router.stop()
                if self._token_keys is not None:
                    await asyncio.to_thread(self._token_keys.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _id_is_in_use(self, reason: str) -> None:
        self._on_wrong_setting()
        self._on_failure(reason)

    async def _start(self) -> None:
        tune_interpreter()
        try:
            await asyncio.to_thread(self.instance.check_broker)
            await asyncio.to_thread(self.instance.read_versions)
            self.instance.start()
        except ConfigurationError as e:
            self._on_failure(str(e))
        except Exception as e:
            log.exception("cannot start the instance")
            self._on_failure(f"cannot start the instance: {e}")
