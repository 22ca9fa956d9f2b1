"""The cache of verified tokens: what it returns, and how large it becomes."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backend.security.identity import Identity
from backend.security.token_cache import MAX_BYTES, TokenCache, digest_of
from backend.security.tokens import TokenVerifier
from model.problems import Unauthenticated
from tests.support.examples import examples
from tests.support.in_process.tokens import SECRET, Keys, token

OTHER_SECRET = b"another secret, which is also long enough"
READ = frozenset({"read:orders"})


def identity(name: str = "me", scopes: frozenset[str] = READ) -> Identity:
    return Identity(name, scopes, time.time() + 3600)


def test_a_flood_of_tokens_does_not_evict_those_in_use() -> None:
    cache = TokenCache(max_tokens=100)
    mine = identity()
    cache.put(b"mine", mine)
    for n in range(10_000):
        cache.put(b"flood %d" % n, identity())
        if n % 80 == 0:
            assert cache.get(b"mine") is mine
        elif n % 40 == 0:
            assert cache.get_by_digests([digest_of(b"mine")])[0] is mine
        assert len(cache) <= 100
    assert cache.get(b"flood 9999") is not None
    assert cache.get(b"flood 0") is None


@given(st.lists(st.integers(0, 150), max_size=40), st.booleans())
def test_tokens_are_found_by_their_digests_in_order(asked: list[int], all_known: bool) -> None:
    """Of both generations, unknown ones, and repeated ones: each place has the identity of its
    token. An order of another kind would give a client the scopes of another one."""
    cache = TokenCache(max_tokens=160)  # the older 80 of 100 are in the old generation
    put = {number: identity(str(number)) for number in range(100)}
    for number, each in put.items():
        cache.put(b"%d" % number, each)
    if all_known:
        asked = [number % 100 for number in asked]
    expected = [put.get(number) for number in asked]
    for _ in range(2):
        assert cache.get_by_digests([digest_of(b"%d" % number) for number in asked]) == expected


def test_identities_are_in_the_order_of_their_digests() -> None:
    keys, now = Keys(), time.time()
    verifier = TokenVerifier(keys, clock=lambda: now)
    made = [token("read:orders", sub=str(n), seconds=100 * n).encode() for n in (1, 2, 3)]
    found = [verifier.identity(each) for each in made]
    digests = [digest_of(each) for each in (made[2], made[0], b"unknown", made[1], made[2])]
    first, second, third = found
    assert verifier.known_by_digests(digests) == [third, first, None, second, third]
    now += 150
    assert verifier.known_by_digests(digests) == [third, None, None, second, third]
    assert verifier.known_by_digests([]) == []
    keys.rotate(OTHER_SECRET)
    assert verifier.known_by_digests(digests) == [None] * 5


def test_a_full_cache_keeps_the_newer_half() -> None:
    cache = TokenCache(max_tokens=100)
    for n in range(1_000):
        cache.put(b"%d" % n, identity())
        assert min(n + 1, 50) <= len(cache) <= 100
    assert all(cache.get(b"%d" % n) is not None for n in range(950, 1_000))


@pytest.mark.parametrize("scopes", [0, 800])
@pytest.mark.slow
def test_the_memory_is_bounded_for_large_tokens(scopes: int) -> None:
    cache = TokenCache()
    tracemalloc.start()
    try:
        for n in range(3_000 if scopes == 0 else 300):
            own = frozenset(f"read:v{n}-{each}" for each in range(scopes))
            cache.put(b"%08d" % n + b"x" * 8_000, identity(f"client {n}", own))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1.2 * MAX_BYTES
    assert len(cache) > 50


class Verifying(RuleBasedStateMachine):
    """Tokens of two keys, a clock, and key changes, also during a verification, in which another
    thread verifies a token with the new key.

    A token that the verifier knows was verified by the current key and has not expired.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys = Keys()
        self.now = time.time()
        self.verifier = TokenVerifier(self.keys, clock=lambda: self.now)
        self.tokens: list[tuple[bytes, bytes, float]] = []  # token, its key, when it expires

    @rule(key=st.sampled_from([SECRET, OTHER_SECRET]), seconds=st.integers(100, 3600))
    def issue(self, key: bytes, seconds: int) -> None:
        made = token("read:orders", key=key, seconds=seconds, sub=str(len(self.tokens))).encode()
        self.tokens.append((made, key, time.time() + seconds))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), key_changes=st.booleans())
    def verify(self, data: st.DataObject, key_changes: bool) -> None:
        made, key, expires_at = data.draw(st.sampled_from(self.tokens))
        verified_by = self.keys.secret
        self.keys.on_use = self.change_key_in_another_thread if key_changes else lambda: None
        verifications = self.keys.verifications
        was_known = self.verifier.known(made) is not None
        try:
            assert self.verifier.identity(made).scopes == READ
            assert key == verified_by
        except Unauthenticated:
            assert key != verified_by
            assert not was_known
        finally:
            self.keys.on_use = lambda: None
        assert (self.keys.verifications == verifications) == was_known
        if was_known:
            assert self.now < expires_at

    @rule()
    def change_key(self) -> None:
        self.keys.rotate(OTHER_SECRET if self.keys.secret == SECRET else SECRET)

    def change_key_in_another_thread(self) -> None:
        self.keys.on_use = lambda: None
        self.change_key()
        self.verifier.identity(token("read:orders", key=self.keys.secret).encode())

    @rule(seconds=st.integers(1, 1800))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def known_tokens_are_valid(self) -> None:
        for made, key, expires_at in self.tokens:
            found = self.verifier.known(made)
            assert self.verifier.known_by_digests([digest_of(made)])[0] is found
            if found is not None:
                assert key == self.keys.secret
                assert self.now < expires_at


Verifying.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
test_known_tokens_are_valid = Verifying.TestCase


def test_a_token_in_use_is_verified_once() -> None:
    keys = Keys()
    verifier = TokenVerifier(keys)
    made = token("read:orders").encode()
    assert verifier.known(made) is None
    assert verifier.identity(made) is verifier.identity(made) is verifier.known(made)
    assert keys.verifications == 1


def test_an_expiry_beyond_all_numbers_is_refused() -> None:
    verifier = TokenVerifier(Keys())
    with pytest.raises(Unauthenticated, match="'exp' is not a time"):
        verifier.identity(token("read:orders", exp=10**400).encode())


def test_a_verifier_forgets_the_oldest_of_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TokenCache.__init__, "__defaults__", (4, MAX_BYTES))
    verifier = TokenVerifier(Keys())
    made = [token("read:orders", sub=str(n)).encode() for n in range(10)]
    for each in made:
        verifier.identity(each)
    assert verifier.known(made[0]) is None
    assert verifier.known(made[-1]) is not None
