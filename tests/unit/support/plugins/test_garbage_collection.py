from __future__ import annotations

import gc


def test_the_collector_is_on_and_leaves_out_what_existed_before() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000
