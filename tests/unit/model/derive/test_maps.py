"""Tables [views.NAME.derive] without an aggregate, and topics that are tables."""

from __future__ import annotations

import pytest

from model.derive.derivation import Derivation
from model.derive.evaluation.explain import explain
from model.derive.normal_form import normal_form
from model.problems import ConfigurationError
from model.views import View
from model.views_file import parse_views

HEAD = """[views.x.derive]
from = "orders"
fields = { id = "string", size = "int?", price = "decimal(2)", at = "time" }
"""


def view(text: str) -> View:
    [found] = parse_views(HEAD + text).views
    return found


def derivation(text: str) -> Derivation:
    found = view(text).derivation
    assert found is not None
    return found


def error(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        view(text)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ('key = "id"', ("string", "json")),
        ('key = "id"\nselect = ["id", "at"]', ("string", "json")),
        ('key = "id"\nselect = { total = "price" }', ("string", "json")),
        ('key = "id"\nselect = "upper(id)"', ("string", "string")),
        ('key = "id"\nselect = "length(id)"', ("string", "int64")),
        ('key = "id"\nselect = "size"', ("string", "json")),  # it may be null
        ('key = "id"\nselect = "at"', ("string", "json")),
        ('where = "size is not null"\nkey = "size"\nselect = "size"', ("int64", "int64")),
    ],
)
def test_the_formats_of_a_map_follow_its_key_and_select(
    text: str, formats: tuple[str, str]
) -> None:
    found = view(text)
    assert (found.key, found.value) == formats
    assert found.store == "key-value"
    assert found.derivation is not None
    assert found.derivation.is_map


def test_a_map_has_all_declared_fields_by_default() -> None:
    select = derivation('key = "id"').select
    assert select is not None
    assert [name for name, _ in select.values] == ["id", "size", "price", "at"]
    [text] = parse_views('[views.x.derive]\nfrom = "t"\nkey = "text"').views
    assert text.value == "json"


def test_a_map_with_points_has_an_entry_for_each_time() -> None:
    found = view('key = "id"\ntime = "at"\npoints = true')
    assert (found.store, found.window_size) == ("window", None)


TABLE = 'kind = "table"\nkey = "record_key"\n'


def test_the_key_of_a_table_is_that_of_its_records() -> None:
    assert derivation(TABLE).is_table
    assert not derivation('key = "id"').is_table
    key = derivation('kind = "table"\nkey = "concat(\'c-\', record_key)"').key[0]
    assert not key.type.optional  # a record of a table has a key


@pytest.mark.parametrize(
    "key", ["id", "'all'", "concat(record_key, record_key)", "lower(record_key)"]
)
def test_a_table_may_have_other_keys(key: str) -> None:
    """Several rows may have one key then, so the view keeps them."""
    text = f'kind = "table"\nkey = "{key}"'
    assert derivation(text).is_rekeyed
    assert not derivation(f"{text}\ncount = true").is_rekeyed
    joined = f'{text}\njoin.a = {{ from = "b", on = "id", fields = {{ c = "string" }} }}'
    assert "with a join that follows its table, the key of a table must follow" in error(joined)
    assert derivation(joined.replace("{ from", "{ static = true, from")).is_rekeyed
    for own in ("record_key", "concat('a-', record_key)"):
        assert not derivation(f'kind = "table"\nkey = "{own}"').is_rekeyed


def test_only_other_keys_need_state() -> None:
    text = explain(derivation('kind = "table"\nkey = "id"'))
    assert "no aggregate: the newest row of a key counts" in text
    assert "a row for each row of" in text
    assert "none: a map keeps no rows" in explain(derivation(TABLE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('key = "id"\nwindow = "1m"', "line 5, [views.x.derive], window: only with an aggregate"),
        ('key = "id"\nsession = "1m"', "session: only with an aggregate: write count = true"),
        ('key = "id"\nidentity = ["id"]', "identity: only with an aggregate"),
        ('key = "id"\nvalue = "id"', 'value: unknown key; select = "…" is the value'),
        ('key = "id"\nkind = "tables"', "kind: 'tables' is not a kind of topic; allowed: \"stream"),
        ('key = "id"\nkind = 1', "kind: 1 is not a kind of topic"),
        ('key = "id"\nunwrap = "debezium"', "unwrap: not in a map of a stream"),
        ('key = "id"\nnull_deletes = true', 'read the topic as a table: kind = "table"'),
        (
            f'{TABLE}max = "size"',
            'max: not with kind = "table": a row that changes or',
        ),
        (f'{TABLE}latest = "at"', 'latest: not with kind = "table"'),
        (f'{TABLE}time = "at"', 'time: not with kind = "table"'),
        (f'{TABLE}identity = ["id"]', "identity: "),
        (
            f"{TABLE}each = {{ word = \"regexp_extract_all(id, '[a-z]+')\" }}",
            'each: not with kind = "table"',
        ),
    ],
)
def test_what_a_map_and_a_table_cannot_have(text: str, message: str) -> None:
    assert message in error(text)


@pytest.mark.parametrize("function", ["latest", "top_k"])
@pytest.mark.parametrize("by", ["record_offset", "-record_offset", "record_partition"])
def test_offsets_of_different_partitions_are_not_compared(function: str, by: str) -> None:
    value = f'"{by}"' if function == "latest" else f'{{ k = 3, by = "{by}" }}'
    message = error(f'key = "id"\n{function} = {value}')
    assert f"{function}: cannot have record_" in message
    assert f'write {function} = "record_timestamp"' in message
    one_partition = 'key = ["id", "record_partition"]'
    assert derivation(f"{one_partition}\n{function} = {value}").aggregates


def test_filter_is_the_earlier_name_of_where() -> None:
    condition = "size > 3"
    named = derivation(f'key = "id"\nfilter = "{condition}"')
    assert named == derivation(f'key = "id"\nwhere = "{condition}"')
    assert "line 5, [views.x.derive], filter: unknown field no" in error(
        'key = "id"\nfilter = "no"'
    )
    both = error(f'key = "id"\nfilter = "{condition}"\nwhere = "{condition}"')
    assert "filter: is the earlier name of where" in both


def test_a_checkpoint_that_was_made_with_filter_continues() -> None:
    """Its name is the one that earlier releases have written into checkpoints."""
    given = {"from": "t", "key": "a", "where": "a = 1"}
    assert normal_form(given) == (("filter", '"a=1"'), ("from", '"t"'), ("key", '"a"'))
    assert derivation('key = "id"\nwhere = "size > 3"').written == (
        derivation('key = "id"\nfilter = "size > 3"').written
    )


def test_a_table_that_says_that_it_reads_a_stream_is_the_same_rule() -> None:
    given = derivation('kind = "stream"\nkey = "id"')
    assert given.written == derivation('key = "id"').written
    assert ("kind", '"table"') in derivation(TABLE).written
