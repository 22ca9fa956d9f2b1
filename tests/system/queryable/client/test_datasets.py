"""Views as Arrow datasets, read by pyarrow, DuckDB and Polars through nginx."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import duckdb
import polars
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from queryable import BadRequest, BadUse, Client, NotFound, QueryableError
from queryable.client.arrow.dataset import UnreadableRows, ViewDataset
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 4
DESTS = ["ATL", "JFK", "LAX", None]
FLIGHTS = {
    f"f{n:05}": {"dest": DESTS[n % 4], "delay": n % 100 - 20, "pad": "x" * 400} for n in range(8000)
}
AIRPORTS = {"ATL": {"city": "Atlanta"}, "JFK": {"city": "New York"}, "LAX": {"city": "L.A."}}
FIELDS = """
[views.flights.fields]
dest = "string?"
delay = "int"
[views.airports.fields]
city = "string"
[views.bounded.fields]
dest = "string?"
[views.bounded.indexes]
by-dest = ["dest"]
"""


@pytest.fixture(scope="module")
def client(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Client]:
    flights, airports, broken, words, numbers = (make_topic(PARTITIONS) for _ in range(5))
    writer.table(flights, FLIGHTS)
    writer.table(airports, AIRPORTS)
    writer.send(broken, [(b"bad", b'{"n":'), (b"good", b'{"n":1}')])
    writer.send(words, [(b"a", b"x"), (b"b", b"y")])
    pairs = enumerate((-1, 0, 7))
    writer.send(numbers, [(struct.pack(">i", n), struct.pack(">q", value)) for value, n in pairs])
    views = views_toml(
        flights={"topic": flights},
        airports={"topic": airports},
        broken={"topic": broken},
        words={"topic": words, "value": "string"},
        bounded={"topic": flights, "scans": "bounded"},
        numbers={"topic": numbers, "key": "int32", "value": "int64"},
    )
    deployment = module_deploy(views + FIELDS)
    deployment.start(2)
    with Client(f"http://127.0.0.1:{deployment.proxy().port}", timeout=60) as client:
        yield client


def rows() -> list[dict[str, Any]]:
    return [
        {"key": key, "dest": row["dest"], "delay": row["delay"]} for key, row in FLIGHTS.items()
    ]


def scan_of(dataset: ViewDataset) -> tuple[str | None, int]:
    """The condition that the last scan has sent, and the number of its rows."""
    assert dataset.last_scan is not None
    return dataset.last_scan.where, dataset.last_scan.rows


def test_the_whole_view(client: Client) -> None:
    dataset = client.dataset("flights")
    table = dataset.to_table()
    assert table.schema.names == ["key", "dest", "delay", "unreadable"]
    assert table.drop_columns("unreadable").sort_by("key").to_pylist() == rows()
    scan = dataset.last_scan
    assert scan is not None
    assert scan.positions is not None
    assert sum(scan.positions.values()) == scan.rows == len(FLIGHTS)
    assert scan.bytes < len(FLIGHTS) * 25  # the values have more than 400
    assert (scan.source.plan, scan.source.lag) == ("scan", 0)
    assert dataset.count_rows() == len(FLIGHTS)
    assert dataset.head(5).num_rows == 5
    assert [each["key"] for each in client.dataset("words").to_table().sort_by("key").to_pylist()
            ] == ["a", "b"]  # fmt: skip


def test_the_columns_and_the_filter_of_a_scan_are_sent(client: Client) -> None:
    dataset = client.dataset("flights", where="delay < 70")
    late = pc.field("delay") > 60
    table = dataset.to_table(columns=["key"], filter=late & (pc.field("dest") == "ATL"))
    expected = [row["key"] for row in rows() if 60 < row["delay"] < 70 and row["dest"] == "ATL"]
    assert sorted(table["key"].to_pylist()) == expected
    assert scan_of(dataset) == (
        "(delay < 70) and ((delay > 60) and (dest = 'ATL'))", len(expected)
    )  # fmt: skip
    computed = dataset.to_table(columns={"twice": pc.field("delay") * 2}, filter=late)
    assert sorted(computed["twice"].to_pylist()) == sorted(
        2 * row["delay"] for row in rows() if 60 < row["delay"] < 70
    )
    assert dataset.last_scan is not None
    assert dataset.last_scan.bytes < len(computed) * 25 + 2000
    # what is no condition is left to Arrow
    shouted = dataset.to_table(filter=pc.starts_with(pc.field("dest"), "A"))
    assert set(shouted["dest"].to_pylist()) == {"ATL"}
    assert scan_of(dataset) == ("delay < 70", sum(row["delay"] < 70 for row in rows()))


def test_duckdb_joins_live_views(client: Client) -> None:
    flights, airports = client.dataset("flights"), client.dataset("airports")
    found = duckdb.sql(
        "select a.city, count(*), avg(f.delay) from flights f join airports a on f.dest = a.key "
        "where f.delay > 60 and f.dest in ('ATL', 'LAX') group by 1 order by 1"
    ).fetchall()
    expected = []
    for dest, city in (("ATL", "Atlanta"), ("LAX", "L.A.")):
        delays = [row["delay"] for row in rows() if row["dest"] == dest and row["delay"] > 60]
        expected.append((city, len(delays), sum(delays) / len(delays)))
    assert found == expected
    assert airports.last_scan is not None
    where, read = scan_of(flights)
    assert "(dest in ('ATL', 'LAX'))" in str(where)
    assert read == sum(count for _, count, _ in expected)


def test_a_statement_about_several_views(client: Client) -> None:
    found = client.local_sql(
        "select a.city, count(*) n, min(f.delay) least from flights f left join airports a "
        "on f.dest = a.key where f.delay > ? group by all order by 1 nulls last", 75,
    )  # fmt: skip
    late = [row for row in rows() if row["delay"] > 75]
    expected = []
    for dest, city in (("ATL", "Atlanta"), ("LAX", "L.A."), ("JFK", "New York"), (None, None)):
        delays = [row["delay"] for row in late if row["dest"] == dest]
        if delays:
            expected.append({"city": city, "n": len(delays), "least": min(delays)})
    assert found.to_list() == expected
    assert len(found) == len(expected) == found.to_arrow().num_rows == len(found.to_pandas())
    assert found.to_polars()["n"].to_list() == [row["n"] for row in expected]
    assert {view: [scan.rows for scan in scans] for view, scans in found.scans.items()} == {
        "flights": [len(late)], "airports": [3],
    }  # fmt: skip
    with_itself = client.local_sql("select count(*) n from words a join words b on a.key < b.key")
    assert with_itself.to_list() == [{"n": 1}]
    assert len(with_itself.scans["words"]) == 2
    found = client.local_sql("select key, 'é?' \"?\" from words where key=? and 'é'<>?", "b", "x")
    assert found.to_list() == [{"key": "b", "?": "é?"}]
    [scan] = client.local_sql("select unreadable from broken").scans["broken"]
    assert scan.unreadable == 1


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("select * from nosuch", "nosuch"),
        ("select * from latest-departure", '"latest-departure"'),
        ("selec 1", "syntax error"),
        ("select 1; select 2", "one select"),
        ("create table x (a int)", "one select"),
        ("select * from read_csv('x.csv')", "disabled by configuration"),
        ("select nosuch from words", "nosuch"),
        ("select * from words where key = ?", "parameter"),
    ],
)
def test_statements_that_are_refused(client: Client, statement: str, why: str) -> None:
    with pytest.raises(BadUse, match=why):
        client.local_sql(statement)


def test_polars(client: Client) -> None:
    dataset = client.dataset("flights")
    frame = (
        polars.scan_pyarrow_dataset(dataset)
        .filter((polars.col("delay") > 60) & (polars.col("dest") == "JFK"))
        .select("key")
        .collect()
    )
    expected = [row["key"] for row in rows() if row["delay"] > 60 and row["dest"] == "JFK"]
    assert sorted(frame["key"].to_list()) == expected
    assert scan_of(dataset)[1] == len(expected)


def test_values_that_cannot_be_read(client: Client) -> None:
    with pytest.warns(UnreadableRows, match="1 rows of broken"):
        table = client.dataset("broken").to_table().sort_by("key")
    assert table["value"].to_pylist() == [None, '{"n":1}']
    assert table["unreadable"].to_pylist()[1] is None
    assert table["unreadable"].to_pylist()[0]


def test_a_view_whose_scans_are_bounded(client: Client) -> None:
    """It is described by its keys, and only conditions with an index are answered."""
    dataset = client.dataset("bounded")
    table = dataset.to_table(filter=pc.field("dest") == "ATL")
    assert table.num_rows == sum(row["dest"] == "ATL" for row in rows())
    assert dataset.last_scan is not None
    assert dataset.last_scan.source.plan == "index by-dest"
    with pytest.raises(BadRequest, match="no-index"):
        dataset.to_table()
    numbers = client.dataset("numbers").to_table().sort_by("key")
    assert numbers.to_pydict() == {"key": [-1, 0, 7], "value": [0, 1, 2], "unreadable": [None] * 3}


def test_what_is_refused(client: Client) -> None:
    with pytest.raises(NotFound):
        client.dataset("nosuch")
    with pytest.raises(BadUse):
        client.dataset("flights").get_fragments()


def test_a_backend_that_is_killed(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    """A stream that is cut is an error, however Arrow reads it, and another scan has all rows."""
    topic = make_topic(PARTITIONS)
    big = {f"k{n:05}": {"n": n, "pad": f"{n}" * 800} for n in range(6000)}
    writer.table(topic, big)
    deployment = deploy(views_toml(big={"topic": topic}))
    backends = deployment.start(2)
    port = deployment.proxy().port
    with Client(f"http://127.0.0.1:{port}", timeout=60) as client:
        dataset = client.dataset("big")
        batches = _slowly(dataset)
        read = next(batches).num_rows
        for backend in backends:
            backend.kill()
        with pytest.raises(QueryableError) as of_the_view:
            client.local_sql("select count(*) from big", timeout=2)
        assert not isinstance(of_the_view.value, BadUse)
        with pytest.raises(QueryableError):
            read += sum(batch.num_rows for batch in batches)
        assert read < len(big)
        for backend in backends:
            backend.start()
        backends[0].wait(lambda: client.dataset("big").count_rows() == len(big), "all rows")


def _slowly(dataset: ViewDataset) -> Iterator[Any]:
    """The batches as they come, without Arrow's read-ahead."""
    reader, body = dataset._open(None, None)
    return dataset._batches(reader, body)


def test_it_is_a_dataset(client: Client) -> None:
    assert isinstance(client.dataset("flights"), ds.Dataset)
