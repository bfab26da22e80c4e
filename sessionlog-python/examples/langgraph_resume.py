"""A graph whose second step fails the first time; the next start goes on with that step.

    pip install 'sessionlog[langgraph]' langgraph
    python examples/langgraph_resume.py sessions; python examples/langgraph_resume.py sessions
"""

import operator
import sys
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

import sessionlog
from sessionlog.langgraph import SessionlogSaver


class State(TypedDict):
    steps: Annotated[list[str], operator.add]


def look(state: State) -> State:
    return {"steps": ["looked"]}


def act(state: State) -> State:
    if not is_resumed:
        raise RuntimeError("killed here")
    return {"steps": ["acted"]}


builder = StateGraph(State)
builder.add_node("look", look)
builder.add_node("act", act)
builder.add_edge(START, "look")
builder.add_edge("look", "act")
builder.add_edge("act", END)

with sessionlog.open(sys.argv[1]) as store:
    graph: Any = builder.compile(checkpointer=SessionlogSaver(store))
    thread = {"configurable": {"thread_id": "t"}}
    is_resumed = bool(graph.get_state(thread).next)
    try:
        print(graph.invoke(None if is_resumed else {"steps": ["began"]}, thread))
    except RuntimeError as error:
        print(f"{error}; start me again")
