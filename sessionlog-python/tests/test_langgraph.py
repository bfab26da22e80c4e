"""SessionlogSaver passes LangGraph's own suite, and what that leaves out."""

import asyncio
import uuid
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.base import empty_checkpoint

import sessionlog
from conftest import run
from sessionlog.langgraph import SessionlogSaver


def test_the_conformance_suite_passes_with_every_capability(store: sessionlog.Store) -> None:
    conformance = pytest.importorskip("langgraph.checkpoint.conformance")

    @conformance.checkpointer_test(name="SessionlogSaver")
    async def saver() -> Any:
        yield SessionlogSaver(store, prefix=f"{uuid.uuid4()}/")

    report = run(conformance.validate(saver))
    failures = [
        failure for result in report.results.values() for failure in (result.failures or [])
    ]
    assert failures == []
    assert report.passed_all()
