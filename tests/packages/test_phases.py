"""Tests that fail in each of pytest's phases, and ones that end in other ways than by passing."""

import pytest


@pytest.fixture
def early():
    raise OSError("no database")


@pytest.fixture
def client(wrs):
    raise ValueError("no client")


@pytest.fixture
def leaky(wrs):
    yield wrs
    raise RuntimeError("left open")


def test_set_up_before_wrs(early, wrs):
    pass


def test_set_up_after_wrs(client):
    pass


def test_call_and_tear_down(leaky):
    raise KeyError("of the call")


def test_tear_down(leaky):
    pass


@pytest.mark.xfail(strict=True)
def test_that_should_fail(wrs):
    pass


@pytest.mark.xfail
def test_expected_failure(wrs):
    raise AssertionError


def test_that_passes(wrs):
    pass


def test_skipped(wrs):
    pytest.skip("not here")


def test_long_output(wrs):
    raise RuntimeError("half of a pair: \udc80\n" + 400_000 * "x")


@pytest.mark.xfail(run=False)
def test_never_run(wrs):
    pass
