"""Types of what the emulated API and the control API send, in TypeScript and Python, from the OpenAPI documents that a binary prints.

Not by a generator of others, because a build needs nothing but Python: no network, and the same bytes for the same binary. The documents
have few forms, and one that is new here fails the build.
"""

import json
import keyword
import re
import subprocess

# What else the name would hide or leave open.
NAMES = {"Error": "ErrorEnvelope", "Event": "WebhookEvent"}
MADE = "Made by packages/build.py from the OpenAPI document that `wrs-emulator openapi{}` prints."


def of(program):
    """The files by their names: types of the emulated API and of the control API."""
    files = {}
    for kind, name, flags, names in (("api", "types", "", NAMES), ("control", "control", " --control", {})):
        printed = subprocess.run([program, "openapi", *flags.split()], capture_output=True, text=True, check=True).stdout
        types = Types(json.loads(printed), names)
        files[f"{kind}.d.ts"] = types.typescript(MADE.format(flags))
        files[f"{name}.py"] = types.python(MADE.format(flags))
    return files


def pascal(words):
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", words))


class Types:
    """The types of a document: by name either the fields of an object, as (name, type, is required, about), or another type.

    A type is a pair: `ref` and a name, `literal` and its values, `list` or `map` and a type, `union` and types, or `plain` and the JSON type.
    """

    def __init__(self, document, names):
        self.names, self.named = names, {}
        for name, schema in document["components"]["schemas"].items():
            self.define(names.get(name, name), schema)
        # Answers of the control API that have no name there.
        for operation in (call for path in document["paths"].values() for call in path.values()):
            schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "properties" in schema:
                self.define(pascal(operation["operationId"]) + "Answer", schema)

    def define(self, name, schema):
        assert name not in self.named, f"two types are called {name}"
        is_object = "properties" in schema and not alternatives(schema)
        # It comes before the types of its fields.
        self.named[name] = None
        shape = self.fields(name, schema) if is_object else self.type(schema, name)
        self.named[name] = (about(schema), shape)
        return "ref", name

    def fields(self, name, schema):
        required = schema.get("required", [])
        parts = schema["properties"].items()
        return [(field, self.type(part, name + pascal(field)), field in required, about(part)) for field, part in parts]

    def type(self, schema, name):
        kind = schema.get("type", "any")
        if "$ref" in schema:
            target = schema["$ref"].rpartition("/")[2]
            return "ref", self.names.get(target, target)
        if alternatives(schema):
            return "union", [self.type(part, f"{name}{number}") for number, part in enumerate(choices(schema), 1)]
        # Values that are assumed are not all.
        if "enum" in schema and "x-assumed" not in schema:
            return "literal", schema["enum"]
        if isinstance(kind, list):
            return "union", [self.type({**schema, "type": one}, name) for one in kind]
        if kind == "array":
            return "list", self.type(schema.get("items", {}), name)
        if kind == "object":
            more = schema.get("additionalProperties", {})
            return self.define(name, schema) if "properties" in schema else ("map", self.type(more if isinstance(more, dict) else {}, name))
        return "plain", kind

    def typescript(self, head):
        """The text of a `.d.ts` file."""
        plain = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null", "any": "unknown"}

        def written(kind, inner):
            if kind == "literal":
                return " | ".join(map(json.dumps, inner))
            if kind == "union":
                return " | ".join(dict.fromkeys(written(*one) for one in inner))
            return {
                "ref": lambda: inner, "plain": lambda: plain[inner], "list": lambda: f"Array<{written(*inner)}>",
                "map": lambda: f"Record<string, {written(*inner)}>",
            }[kind]()

        def comment(text, indent=""):
            return f"{indent}/** {text.replace('*/', '* /')} */\n" if text else ""

        def declared(name, text, shape):
            if isinstance(shape, tuple):
                return f"{comment(text)}export type {name} = {written(*shape)};\n"
            lines = (f"{comment(about, '  ')}  {field}{'' if must else '?'}: {written(*kind)};\n" for field, kind, must, about in shape)
            return f"{comment(text)}export interface {name} {{\n{''.join(lines)}}}\n"

        return "\n".join([f"// {head}\n", *(declared(name, *one) for name, one in self.named.items())])

    def python(self, head):
        """The text of a module, for Python 3.8 and newer."""
        plain = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "any": "Any"}

        def written(kind, inner):
            if kind == "literal":
                return f"Literal[{', '.join(json.dumps(value) if isinstance(value, str) else repr(value) for value in inner)}]"
            if kind == "union":
                parts = list(dict.fromkeys(written(*one) for one in inner))
                return f"Union[{', '.join(parts)}]" if len(parts) > 1 else parts[0]
            return {
                "ref": lambda: inner, "plain": lambda: plain[inner], "list": lambda: f"List[{written(*inner)}]",
                "map": lambda: f"Dict[str, {written(*inner)}]",
            }[kind]()

        def dictionary(name, base, text, fields):
            for field, *_ in fields:
                assert field.isidentifier() and not keyword.iskeyword(field), f"{name} has the field {field}"
            lines = [f'    """{text}"""\n'] if text else []
            lines += [(f"    # {about}\n" if about else "") + f"    {field}: {written(*kind)}\n" for field, kind, _, about in fields]
            return f"class {name}({base}):\n{''.join(lines) or '    pass' + chr(10)}"

        def declared(name, text, shape):
            required, optional = ([one for one in shape if one[2] is must] for must in (True, False))
            # `NotRequired` is in Python 3.11 and newer.
            if required and optional:
                return dictionary(f"_{name}", "TypedDict", "", required) + "\n\n" + dictionary(name, f"_{name}, total=False", text, optional)
            return dictionary(name, "TypedDict" if required else "TypedDict, total=False", text, shape)

        # Unlike fields, the other types are evaluated at once, so they come after those that they name.
        fields = [declared(name, *one) for name, one in self.named.items() if isinstance(one[1], list)]
        others = [(name, text, shape) for name, (text, shape) in reversed(self.named.items()) if isinstance(shape, tuple)]
        aliases = [(f"# {text}\n" if text else "") + f"{name} = {written(*shape)}\n" for name, text, shape in others]
        names = "Any, Dict, List, Literal, TypedDict, Union"
        start = f'"""{head}"""\n\nfrom __future__ import annotations\n\nfrom typing import {names}\n'
        return "\n\n".join([start, *fields, *aliases])


def about(schema):
    """Its description in one line, and the setting on which it depends."""
    assumed = f"Assumed: see the setting `{schema['x-assumed']}`." if "x-assumed" in schema else ""
    return " ".join(f"{schema.get('description', '')} {assumed}".replace("\\", "/").split())


def alternatives(schema):
    """The schemas of a choice; none if it is not one."""
    return schema.get("anyOf") or schema.get("oneOf") or []


def choices(schema):
    """The parts of a choice, each with the properties that all share."""
    for part in alternatives(schema):
        properties = schema.get("properties", {}) | part.get("properties", {})
        required = schema.get("required", []) + part.get("required", [])
        yield {**part, "properties": properties, "required": required} if properties else part
