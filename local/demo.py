"""The demo: starts the whole stack, shows what it answers, and stays, or verifies and ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from local import http
from local.errors import LocalError
from local.load import end_offsets
from local.progress import console
from local.run_folder import running_in_background
from local.settings import StackSettings
from local.stack import (
    FIRST_VIEWS,
    LIVE_VIEWS,
    MORE_VIEWS,
    Stack,
)
from local.verify import verify

TRY = ("/messages/N14228", "/words/lambda", "/flights/N14228", "/messages/no-such-aircraft")
TRY_MORE = {
    "airports": "/views/airports/top?by=count&limit=3",
    "departures": "/departures/N14228/windows?order=desc&limit=1",
    "requests-per-host": "/requests/127.0.0.1",
    "requests-per-minute": "/requests-per-minute/127.0.0.1/windows?order=desc&limit=1",
    "bytes-per-host": "/bytes/127.0.0.1",
    "visits": "/visits/127.0.0.1/sessions",
}
HEADERS = ("partition", "offset", "lag", "served-by")


def demo(settings: StackSettings, *, once: bool) -> None:
    """Raises ``LocalError`` when something cannot start, dies, or (``once``) answers wrongly.

    Without ``once`` it stays until KeyboardInterrupt. ``once`` derives and verifies the first views
    only: the others would take as long again.
    """
    if not settings.has_demo:
        raise LocalError(
            f"the demo creates its topics in your Kafka, {settings.bootstrap_servers}, and loads "
            "336,776 flights. If that is what you want, say QUERYABLE_DEMO_DATA=yes. `make up` "
            "serves your own views and creates nothing; without QUERYABLE_BOOTSTRAP_SERVERS the "
            "demo has a Kafka of its own."
        )
    with Stack(settings, spark_views=FIRST_VIEWS if once else ()) as stack:
        stack.start(say)
        stack.wait_for_spark(FIRST_VIEWS)
        print(f"\nrunning:\n{stack.describe()}")
        show(stack, TRY)
        if once:
            check_answers(settings)
        else:
            show_more(stack)
            stay(stack)
        say("ending everything")
    if once:
        print("demo ok", flush=True)


def show(stack: Stack, paths: Iterable[str]) -> None:
    """Prints what these requests are answered."""
    url = stack.settings.proxy_url
    print("\ntry:")
    for path in paths:
        print(f"  curl -i '{url}{path}'" if "?" in path else f"  curl -i {url}{path}")
        print(f"    {shown_answer(settled(stack, url + path))}")
    print(f"\nadmin page: {url}/admin\nthe map: {url}/processors\n", flush=True)


def show_more(stack: Stack) -> None:
    """The views that are derived last; those of the access log need a request in it."""
    servers = stack.settings.kafka
    stack.wait_for_spark(MORE_VIEWS)
    stack.wait_until(lambda: any(end_offsets(servers, "weblog").values()), 20, "the access log")
    stack.wait_for_spark(LIVE_VIEWS)
    show(stack, (path for view, path in TRY_MORE.items() if view in stack.spark_views))


def settled(stack: Stack, url: str) -> http.Answer:
    """An answer with nothing left to read, or after a while whatever there is."""
    answer = http.get(url)

    def is_settled() -> bool:
        nonlocal answer
        answer = http.get(url)
        return answer.headers.get("lag") == "0"

    try:
        stack.wait_until(is_settled, 20, f"the answer of {url}")
    except LocalError as error:
        say(str(error))
    return answer


def shown_answer(answer: http.Answer) -> str:
    """Status, some headers and the body, on two lines."""
    headers = ", ".join(f"{n}: {answer.headers[n]}" for n in HEADERS if n in answer.headers)
    try:
        body = json.dumps(json.loads(answer.body), ensure_ascii=False)
    except ValueError:
        body = answer.body.decode(errors="replace")
    return f"{answer.status}  {headers}\n    {body}"


def check_answers(settings: StackSettings) -> None:
    """``LocalError`` that names the first differences from the raw data."""
    findings = verify(settings.proxy_url, settings.kafka)
    if findings.differences:
        raise LocalError(
            f"{len(findings.differences):,} of {findings.checked:,} answers are wrong:\n"
            f"{findings.summary()}"
        )
    say(f"{findings.checked:,} answers through the proxy equal what the raw data say")


def stay(stack: Stack) -> None:
    """Until Ctrl-C. The death of a backend is told, and survived, as long as one is left."""
    say("Ctrl-C ends everything")
    backends = stack.settings.instances
    while True:
        for name, obituary in stack.wait_for_a_death().items():
            backends -= name.startswith("backend-")
            if not name.startswith("backend-") or not backends:
                raise LocalError(obituary)
            say(f"{obituary}\nthe other backends go on")


def up(settings: StackSettings) -> None:
    """Starts the stack in the background; returns when it is ready and the demo's views are
    derived.

    Does nothing when it is running already.
    """
    if running := running_in_background(settings.run_dir.absolute()):
        say(f"running already: {', '.join(running)}")
        return
    stack = Stack(settings, background=True)
    stack.start(say)
    try:
        if settings.has_demo:
            stack.wait_for_spark(FIRST_VIEWS)
        print(f"\nrunning:\n{stack.describe()}")
        if settings.has_demo:
            show(stack, TRY)
            show_more(stack)
        else:
            url = settings.proxy_url
            print(f"\nthe views: {url}/views\nadmin page: {url}/admin\n", flush=True)
    except BaseException:
        stack.stop()
        raise
    stack.detach()


def say(text: str) -> None:
    """A line for the person at the terminal, on stderr beside the progress bars."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    sys.stderr.flush()
