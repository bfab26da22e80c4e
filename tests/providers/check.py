#!/usr/bin/env python3
"""Validates exports against the types of the providers' own packages.

Reads lines from standard input, each a JSON object with `format` and `value`, as the test
`models::random::the_exports_are_written_down` writes them. Ends with 1 if a value is refused.
"""

import collections
import json
import sys
from collections.abc import Iterable

import anthropic.types
import google.genai.types
import openai.types.chat
import openai.types.responses
from pydantic import TypeAdapter

CHAT = TypeAdapter(openai.types.chat.ChatCompletionMessageParam)
ITEM = TypeAdapter(openai.types.responses.ResponseInputItemParam)
MESSAGE = TypeAdapter(anthropic.types.MessageParam)
BLOCK = TypeAdapter(anthropic.types.TextBlockParam)


def exhaust(value):
    """Lists are validated when they are gone through."""
    if isinstance(value, dict):
        for inner in value.values():
            exhaust(inner)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for inner in value:
            exhaust(inner)


def anthropic_request(value):
    system = value.get("system", "")
    if not isinstance(system, str):
        for block in system:
            BLOCK.validate_python(block)
    for message in value["messages"]:
        exhaust(MESSAGE.validate_python(message))


def gemini_request(value):
    contents = value["contents"]
    if "systemInstruction" in value:
        contents = [value["systemInstruction"], *contents]
    for content in contents:
        google.genai.types.Content.model_validate(content)


RULES = {
    "OpenAi": lambda value: [exhaust(CHAT.validate_python(each)) for each in value],
    "OpenAiResponses": lambda value: [exhaust(ITEM.validate_python(each)) for each in value],
    "Anthropic": anthropic_request,
    "Gemini": gemini_request,
}

tried, refused = collections.Counter(), 0
for line in sys.stdin:
    export = json.loads(line)
    tried[export["format"]] += 1
    try:
        RULES[export["format"]](export["value"])
    except Exception as error:  # Whatever it is, the value is not of the type.
        refused += 1
        if refused <= 5:
            print(f"{export['format']} {export['name']}: {error}\n{json.dumps(export['value'])}")
print(f"{dict(tried)} tried, {refused} refused")
if refused or len(tried) < len(RULES) or min(tried.values()) < 2000:
    sys.exit(1)
