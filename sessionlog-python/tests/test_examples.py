"""The examples run, and do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

import sessionlog

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str, *arguments: str) -> str:
    program = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_agent_goes_on_where_it_was_killed(directory: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "agent.py"), str(directory)]
    for _ in range(3):
        child = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        child.kill()
        child.stdout.read()
        child.wait()
        child.stdout.close()
    said = example("agent.py", str(directory), "2").splitlines()
    with sessionlog.open(directory) as store:
        history = store.history("chat:1")
    roles = [message["role"] for message in history]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
    assert len(roles) >= 10
    assert said[-1] == f"You told me {len(roles) // 2} things."


def test_the_agents_session_remembers_its_last_start(directory: Path) -> None:
    pytest.importorskip("agents")
    said = [example("openai_agents_session.py", str(directory)) for _ in range(2)]
    assert said[0].startswith("I know 1 items.")
    assert said[1].startswith("I know 3 items.")


def test_the_graph_resumes(directory: Path) -> None:
    pytest.importorskip("langgraph.graph")
    assert "start me again" in example("langgraph_resume.py", str(directory))
    assert "['began', 'looked', 'acted']" in example("langgraph_resume.py", str(directory))
