"""``demo`` and ``up``: start the stack, show example answers, and keep running or verify."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

from local import http
from local.demo.load import end_offsets
from local.demo.verify import verify
from local.errors import LocalError
from local.kafka.connection import deployment_of
from local.progress import console
from local.settings import StackSettings
from local.stack.restarts import Restarts
from local.stack.run_folder import ended_in_background, running_in_background
from local.stack.stack import Stack
from model.http.answers import Answer

FIRST_VIEWS = ("latest-departure", "word-count")
"""The views that are derived and shown first; DEMO_ONCE verifies only these."""
ACCESS_LOG = "weblog"
"""A raw topic that has records only after requests to the proxy."""

TRY = ("/messages/N14228", "/words/lambda", "/flights/N14228", "/messages/no-such-aircraft")
TRY_MORE = {
    "aircraft": "/aircraft/N14228",
    "airports": "/views/airports/top?by=count&limit=3",
    "departures": "/departures/N14228/windows?order=desc&limit=1",
    "requests-per-host": "/requests/127.0.0.1",
    "requests-per-minute": "/requests-per-minute/127.0.0.1/windows?order=desc&limit=1",
    "bytes-per-host": "/bytes/127.0.0.1",
    "bytes-per-minute": "/bytes-per-minute/127.0.0.1/windows?order=desc&limit=1",
    "visits": "/visits/127.0.0.1/sessions",
}
HEADERS = ("partition", "offset", "lag", "served-by")


def demo(settings: StackSettings, *, once: bool) -> None:
    """Starts the stack with the demo's data, and shows example answers until KeyboardInterrupt.

    With ``once``, derives and verifies only the first views, because all of them would take twice
    as long. Raises ``LocalError`` if a process cannot start or ends, or if an answer is wrong.
    """
    if not settings.has_demo:
        raise LocalError(
            f"the demo would create topics in your Kafka, {settings.bootstrap_servers}, and load "
            "336,776 flights. To allow that, set QUERYABLE_DEMO_DATA=yes. `make up` serves your "
            "own views and creates no topics. Without QUERYABLE_BOOTSTRAP_SERVERS the demo starts "
            "its own Kafka."
        )
    with Stack(settings, spark_views=FIRST_VIEWS if once else ()) as stack:
        stack.start(report)
        stack.wait_for_spark(FIRST_VIEWS)
        print(f"\nrunning:\n{stack.describe()}")
        show(stack, TRY)
        if once:
            check_answers(settings)
        else:
            show_more(stack)
            run_until_interrupted(stack)
        report("stopping everything")
    if once:
        print("demo ok", flush=True)


def show(stack: Stack, paths: Iterable[str]) -> None:
    """Prints the answers to these requests."""
    url = stack.settings.url
    print("\ntry:")
    for path in paths:
        print(f"  {curl(stack.settings, path)}")
        print(f"    {format_answer(answer_without_lag(stack, url + path))}")
    print(f"\nadmin page: {url}/admin\ntopology: {url}/processors\n", flush=True)


def curl(settings: StackSettings, path: str) -> str:
    """The command line of a request. It names the variable with the token, not the token."""
    header = """-H "Authorization: Bearer $QUERYABLE_TOKEN" """ if settings.headers else ""
    url = settings.url + path
    return f"curl -i {header}'{url}'" if "?" in path else f"curl -i {header}{url}"


def show_more(stack: Stack) -> None:
    """Shows the other views. Views of the access log need at least one request in the log."""
    remaining = [view for view in stack.spark_views.values() if view.name not in FIRST_VIEWS]
    stack.wait_for_spark(view.name for view in remaining if ACCESS_LOG not in view.sources)
    servers = stack.settings.kafka
    stack.wait_until(lambda: any(end_offsets(servers, ACCESS_LOG).values()), 20, "the access log")
    stack.wait_for_spark(view.name for view in remaining if ACCESS_LOG in view.sources)
    entries = {entry.topic: entry for entry in deployment_of(stack.settings.views).views}
    names = [entries[view.topic].name for view in remaining if view.topic in entries]
    show(stack, (TRY_MORE.get(name) or f"/views/{name}/keys?limit=1" for name in names))


def answer_without_lag(stack: Stack, url: str) -> Answer:
    """Repeats the request until the answer has lag 0; after 20 s returns the last answer."""
    headers = stack.settings.headers
    answer = http.get(url, headers=headers)

    def has_no_lag() -> bool:
        nonlocal answer
        answer = http.get(url, headers=headers)
        return answer.headers.get("lag") == "0"

    try:
        stack.wait_until(has_no_lag, 20, f"the answer of {url}")
    except LocalError as error:
        report(str(error))
    return answer


def format_answer(answer: Answer) -> str:
    """Status, some headers and the body, on two lines."""
    headers = ", ".join(f"{n}: {answer.headers[n]}" for n in HEADERS if n in answer.headers)
    try:
        body = json.dumps(json.loads(answer.body), ensure_ascii=False)
    except ValueError:
        body = answer.body.decode(errors="replace")
    return f"{answer.status}  {headers}\n    {body}"


def check_answers(settings: StackSettings) -> None:
    """Raises ``LocalError`` with the first differences from the raw data, if any."""
    findings = verify(settings.url, settings.kafka, settings.headers)
    if findings.differences:
        raise LocalError(
            f"{len(findings.differences):,} of {findings.checked:,} answers are wrong:\n"
            f"{findings.summary()}"
        )
    report(f"{findings.checked:,} answers through the proxy agree with the raw data")


def run_until_interrupted(stack: Stack, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Runs until Ctrl-C. Reports a process that ends, and starts it again after a pause.
    Raises ``LocalError`` if the broker ends. ``meanwhile`` is called twice a second."""
    report("Ctrl-C stops everything")
    restarts = Restarts()

    def start_due() -> None:
        for name in restarts.take_due():
            stack.restart(name)
            report(f"{name} was started again")
        meanwhile()

    while True:
        for name, message in stack.wait_for_exit(meanwhile=start_due).items():
            if name == "broker":
                raise LocalError(message)
            report(f"{message}\n{name} starts again in {restarts.ended(name):.0f} s")


def up(settings: StackSettings) -> None:
    """Starts the stack in the background; returns when it is ready and the demo's views are
    derived. Does nothing if it is already running. Raises ``LocalError`` if only a part of it
    is."""
    run_dir = settings.run_dir.absolute()
    if running := running_in_background(run_dir):
        if ended := ended_in_background(run_dir):
            raise LocalError(
                f"{', '.join(ended)} {'have' if len(ended) > 1 else 'has'} ended (logs: "
                f"{run_dir / 'logs'}): `make down`, then `make up`."
            )
        report(f"already running: {', '.join(running)}")
        return
    stack = Stack(settings, background=True)
    stack.start(report)
    try:
        if settings.has_demo:
            stack.wait_for_spark(FIRST_VIEWS)
        print(f"\nrunning:\n{stack.describe()}")
        if settings.has_demo and settings.has_demo_views:
            show(stack, TRY)
            show_more(stack)
        else:
            url = settings.url
            print(f"\nthe views: {url}/views\nadmin page: {url}/admin\n", flush=True)
    except BaseException:
        stack.stop()
        raise
    stack.detach()


def report(text: str) -> None:
    """Prints a line on stderr, above the progress bars."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    sys.stderr.flush()
