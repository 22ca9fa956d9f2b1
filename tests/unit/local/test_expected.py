"""The independent computation of the demo's answers, on rows for its edge cases."""

import pytest

from local.demo.expected import as_json, last_rows, latest_departures, word_counts
from local.demo.verify import SHOWN, Findings
from tests.system.e2e.derived_views import aircraft, airports, departures


def row(tailnum: str = "N1", time: str = "2013-01-01T10:00:00Z", **more: str) -> dict[str, str]:
    return {
        "tailnum": tailnum,
        "time_hour": time,
        "minute": "15",
        "dep_time": "517",
        "dep_delay": "2",
        "carrier": "UA",
        "flight": "7",
        "origin": "EWR",
        "dest": "IAH",
        **more,
    }


def departure(flight: str, time: str, delay: int) -> dict[str, object]:
    return {"flight": flight, "origin": "EWR", "dest": "IAH", "time": time, "delay": delay}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_latest_departure_has_the_latest_time_in_any_order(reverse: bool) -> None:
    rows = [
        row(dep_delay="120"),  # 12:15, though scheduled first
        row(time="2013-01-01T11:00:00Z", dep_delay="-3", flight="8"),  # 11:12
        row(time="2013-01-01T12:00:00Z", dep_time="NA", dep_delay="NA"),  # cancelled
    ]
    found = latest_departures(reversed(rows) if reverse else rows)
    assert found == {"N1": departure("UA7", "2013-01-01T12:15:00Z", 120)}


def test_of_equal_times_the_greatest_flight_wins() -> None:
    rows = [row(flight="9"), row(flight="80"), row(flight="9", carrier="AA")]
    assert latest_departures(rows) == {"N1": departure("UA9", "2013-01-01T10:17:00Z", 2)}


def test_rows_without_aircraft_or_departure_have_no_entry() -> None:
    assert latest_departures([row("NA"), row("N2", dep_time="NA", dep_delay="NA")]) == {}


def test_the_last_row_of_an_aircraft_is_the_last_in_the_file() -> None:
    rows = [row(flight="1"), row("NA"), row(flight="2", dep_time="NA")]
    found = last_rows(rows)
    assert found == {"N1": as_json(rows[2])}
    assert as_json(rows[2])["dep_time"] is None
    assert as_json(rows[2])["flight"] == 2


def test_departures_are_by_aircraft_and_time_and_airports_by_flight() -> None:
    rows = [row(), row(), row("N2", dest="ORD"), row("NA"), row(flight="8", dep_time="NA")]
    value = {"flight": "UA7", "origin": "EWR", "dest": "IAH", "delay": 2}
    ten_seventeen = 1357035420000
    assert departures(rows) == {
        ("N1", ten_seventeen): value,
        ("N2", ten_seventeen): {**value, "dest": "ORD"},
    }
    assert airports([*rows[:2], row(flight="9"), row(time="2013-01-02T10:00:00Z")]) == {
        "IAH": {"count": 3}
    }


def test_aircraft_have_what_the_other_tables_know() -> None:
    rows = [row(), row("N2", carrier="XX", dest="BQN")]
    plane = {"tailnum": "N1", "manufacturer": "BOEING", "model": "NA", "year": "1999", "seats": "2"}
    airlines = [{"carrier": "UA", "name": "United"}]
    assert aircraft(rows, [plane], airlines, [{"faa": "IAH", "name": "Houston"}]) == {
        "N1": {**departure("UA7", "2013-01-01T10:17:00Z", 2), "manufacturer": "BOEING",
               "year": 1999, "seats": 2, "airline": "United", "destination": "Houston"},
        "N2": {**departure("XX7", "2013-01-01T10:17:00Z", 2), "dest": "BQN"},
    }  # fmt: skip


def test_words_are_counted_in_lower_case() -> None:
    counts = word_counts()
    assert isinstance(counts["the"], int)
    assert counts["the"] > counts["lambda"] > 1  # type: ignore[operator]
    assert all(word == word.lower() for word in counts)


def test_a_summary_has_only_the_first_differences() -> None:
    findings = Findings()
    findings.compare("same", 1, 1)
    for number in range(SHOWN + 2):
        findings.compare(f"key {number}", number, "x" * 1_000)
    assert findings.checked == SHOWN + 3
    lines = findings.summary().splitlines()
    assert lines[0].startswith("  key 0: 0, expected xxx")
    assert lines[-1] == "  and 2 more"
    assert max(map(len, lines)) < 400
