"""The form of queries on the admin page, and the answers."""

from __future__ import annotations

from selenium.webdriver.support.ui import Select

from tests.support.browser import AdminPage


def ask(page: AdminPage, view: str, query: str, **fields: str) -> str:
    """Sends a query; the outcome."""
    Select(page.one("#look-up-view")).select_by_value(view)
    Select(page.one("#look-up-query")).select_by_value(query)
    for name, text in fields.items():
        field = page.one(f"#look-up [name={name}]")
        if field.tag_name == "select":
            Select(field).select_by_value(text)
        else:
            field.clear()
            field.send_keys(text)
    page.run("document.getElementById('found').replaceChildren()")
    page.one("#look-up [type=submit]").click()
    page.wait(lambda: page.run("return !!document.querySelector('#found .badge')"), "an answer")
    return page.text("#found .badge")


def table(page: AdminPage) -> list[dict[str, str]]:
    rows: list[list[str]] = page.run(
        "return [...document.querySelectorAll('#found tr')].map("
        "(row) => [...row.children].map((cell) => cell.textContent))"
    )
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def press(page: AdminPage, text: str) -> None:
    page.run(
        "[...document.querySelectorAll('#found button')].find("
        "(button) => button.textContent === arguments[0]).click()",
        text,
    )
