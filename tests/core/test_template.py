from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.template import GIVEN, known_names, template, values_of
from retinue.errors import BadTemplate, NamesMissing

VALUES: dict[str, Any] = {
    "city": "Porto",
    "n": 3,
    "none": None,
    "yes": True,
    "xs": [1, 2, {"items": [1]}],
    "of": {"items": [1, 2], "keys": "k", "deep": {"er": 1}},
    "result": "r",
}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("In {{ city }}.", "In Porto."),
        ("{{ n }} {{ yes }} {{ none }}", "3 true null"),
        ("{{ xs }} of {{ of.deep }}", '[1,2,{"items":[1]}] of {"er":1}'),
        ("{{ of.items }} {{ of['keys'] }}", "[1,2] k"),
        ("{% for x in of.items %}{{ loop.index }}:{{ x }} {% endfor %}", "1:1 2:2 "),
        ("{% for x in xs if x is number %}{{ x }}{{ ',' if not loop.last }}{% endfor %}", "1,2"),
        ("{% for k, v in of.deep.items() %}{{ k }}={{ v }}{% endfor %}", "er=1"),
        ("{{ city.upper() ~ '!' ~ n }}", "PORTO!3"),
        ("{{ xs | join(', ') }}", '1, 2, {"items":[1]}'),
        ("{{ '<&>' }} {{ {'a': '<'} | tojson }}", '<&> {"a":"<"}'),
        ("{{ nobody | default('d') }}{% if nobody is defined %}{{ nobody.name }}{% endif %}", "d"),
        ("{% set x = n + 1 %}{{ x }}\n", "4\n"),
        ("{{ 7.256 | round(1) }}{{ [2, 1] | sort }}", "7.3[1,2]"),
        ("{{ 'a-b' | replace('-', '+') }}", "a+b"),
    ],
)
def test_what_a_template_says(text: str, says: str) -> None:
    assert template(text).render(VALUES) == says


@pytest.mark.parametrize("text", ["", "plain", "${HOME} costs $5", "{ city }", "100 %}", "a }} b"])
def test_what_has_no_template_in_it_is_only_text(text: str) -> None:
    assert template(text).render({}) == text == template(text).value({})


def test_a_dollar_before_a_name_in_braces_is_text_beside_templates_too() -> None:
    assert template("${HOME} {{ city }}").render(VALUES) == "${HOME} Porto"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ xs }}", [1, 2, {"items": [1]}]),
        ("  {{ of.deep }}\n", {"er": 1}),
        ("{{ n * 2 > 5 }}", True),
        ("{{ none }}", None),
        ("{{ result }}", "r"),
        ("{{ xs | map('string') }}", ["1", "2", '{"items":[1]}']),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ n }}{{ n }}", "33"),
        ("n: {{ n }}", "n: 3"),
        ("{% if n %}{{ n }}{% endif %}", "3"),
    ],
)
def test_a_lone_expression_keeps_its_value_and_anything_else_is_text(text: str, value: object) -> None:
    assert template(text).value(VALUES) == value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_any_json_comes_through_a_lone_expression_as_it_is(value: object) -> None:
    assert template("{{ value }}").value({"value": value}) == value


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text())
def test_every_key_of_an_object_can_be_read_whatever_python_calls_so(of: dict[str, Any], key: str) -> None:
    assert template("{{ of[key] }}").value({"of": {**of, key: 1}, "key": key}) == 1


@given(st.text(st.characters(exclude_characters="{")))
def test_text_without_a_brace_says_itself(text: str) -> None:
    assert template(text).render({}) == text


def test_all_that_is_missing_is_said_at_once_with_what_there_is() -> None:
    with pytest.raises(NamesMissing) as missing:
        template("{{ city }} {{ street }} {% if of.deep.est %}{{ street }}{{ number }}{% endif %}").render(VALUES)
    assert missing.value.missing == "street, of.deep.est, number"
    assert missing.value.available == ", ".join(sorted(VALUES))


def test_a_branch_that_is_not_taken_needs_nothing() -> None:
    assert template("{% if n > 5 %}{{ nobody }}{% endif %}few").render(VALUES) == "few"


@pytest.mark.parametrize("text", ["{{ xs[7] }}", "{{ of.nothing }}", "{{ city.nothing }}", "{{ n.real }}"])
def test_a_key_that_is_not_there_is_missing_in_a_lone_expression_too(text: str) -> None:
    with pytest.raises((NamesMissing, BadTemplate)):
        template(text).value(VALUES)
    with pytest.raises((NamesMissing, BadTemplate)):
        template(text).render(VALUES)


def test_the_names_that_a_template_needs_are_known_with_their_lines() -> None:
    text = "{{ a }}\n{% for x in b.c %}{{ x }}{{ a }}{{ loop.index }}{% endfor %}\n{% set d = 1 %}{{ d }}\n{{ e(1) }}"
    assert template(text).mentions == {"a": 1, "b": 2, "e": 4}


def test_names_that_a_template_can_do_without_are_not_needed() -> None:
    text = "{{ a | default('x') }}{% if b is defined %}{{ b.c }}{% endif %}{{ range(3) }}{{ f | default(g) }}"
    assert template(text).mentions == {"g": 1}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a\n\n{{ city. }}", 3, "expected name"),
        ("{% if n %}", 1, "end"),
        ("\n{{ n | uper }}", 2, "Did you mean upper"),
        ("{% if n %}\n{{ n | uper }}{% endif %}", 2, "no filter uper"),
        ("{{ n is od }}", 1, "Did you mean odd"),
        ("{% include '/etc/passwd' %}", 1, "{% include %}"),
        ("{% extends 'x' %}", 1, "{% extends %}"),
        ("{% import 'x' as y %}", 1, "{% import %}"),
        ("{% from 'x' import y %}", 1, "{% from %}"),
        ("{% macro m() %}{% endmacro %}", 1, "{% macro %}"),
        ("{% block b %}{% endblock %}", 1, "{% block %}"),
        ("{% for x in xs recursive %}{{ loop(x) }}{% endfor %}", 1, "recursive"),
        ("{{ " + "(" * 500 + "1" + ")" * 500 + " }}", 1, "nested too deeply"),
        ("{% for x in y %}" * 40 + "{% endfor %}" * 40, 1, "nested too deeply"),
    ],
)
def test_a_bad_template_is_refused_when_it_is_read(text: str, line: int, says: str) -> None:
    with pytest.raises(BadTemplate) as bad:
        template(text)
    assert bad.value.line == line
    assert says in bad.value.problem


@pytest.mark.parametrize(
    "text",
    [
        "{{ city.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ city['__class__'] }}",
        "{{ xs | map(attribute='__class__') | list }}",
        "{{ '{0.__class__}'.format(city) }}",
        "{{ city.format }}",
        "{{ city.format_map }}",
        "{{ xs.append(4) }}",
        "{{ of.update({}) }}",
        "{{ of.pop('items') }}",
        "{{ self }}",
        "{{ range.__init__ }}",
        "{{ (1).to_bytes }}",
        "{{ loop }}",
        "{{ cycler }}",
        "{{ lipsum }}",
        "{{ namespace() }}",
        "{% for x in xs %}{{ loop.__init__.__globals__ }}{% endfor %}",
    ],
)
def test_there_is_no_way_from_the_data_to_python(text: str) -> None:
    with pytest.raises((BadTemplate, NamesMissing)):
        template(text).value(VALUES)
    assert VALUES["xs"] == [1, 2, {"items": [1]}]
    assert VALUES["of"]["items"] == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 100000000 }}",
        "{{ 100000000 * [1] }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ range(999999999) | list }}",
        "{% for a in range(5000) %}{% for b in range(5000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{% set a = 'x' * 9000000 %}{% set a = a ~ a %}{{ a }}",
        "{% set a = 'x' * 9000000 %}{% set a = a + a %}{{ a }}",
        "{{ ('a' * 99999) | replace('a', 'b' * 99999) }}",
        "{{ range(99999) | join('b' * 99999) }}",
    ],
)
def test_little_cannot_be_made_into_too_much(text: str) -> None:
    with pytest.raises(BadTemplate):
        template(text).render(VALUES)


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb {{ 1 / 0 }}", 2), ("{{ n + city }}", 1), ("\n\n{{ city() }} x", 3), ("{{ xs < 3 }}", 1)]
)
def test_a_template_that_fails_on_its_data_says_where(text: str, line: int) -> None:
    with pytest.raises(BadTemplate) as bad:
        template(text).render(VALUES)
    assert bad.value.line == line


def test_the_callers_keys_win_over_what_is_given_and_that_is_told() -> None:
    given = dict.fromkeys(GIVEN, "ours")
    values = values_of({"model": "Ford T", "city": "Porto"}, given)
    assert (values.values["model"], values.values["today"], values.shadowed) == ("Ford T", "ours", ("model",))
    assert values.values["input"] == {"model": "Ford T", "city": "Porto"}


def test_a_text_as_input_is_there_as_input() -> None:
    values = values_of("Where to eat?", {"today": "2026-01-01"})
    assert template("Asked: {{ input }}").render(values.values) == "Asked: Where to eat?"


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (None, None),
        ({"type": "object", "properties": {"city": {}}}, {"city", "input", *GIVEN}),
        ({"type": "object", "properties": {"city": {}}, "additionalProperties": True}, None),
        ({"type": "object", "properties": {"city": {}}, "additionalProperties": {"type": "string"}}, None),
        ({"properties": {}, "additionalProperties": False}, {"input", *GIVEN}),
        ({"anyOf": [{}], "properties": {"city": {}}}, None),
        ({"type": "string"}, None),
    ],
)
def test_names_can_be_checked_where_the_input_is_declared(
    schema: dict[str, object] | None, known: set[str] | None
) -> None:
    assert known_names(schema) == known


def test_text_without_templates_does_not_load_jinja() -> None:
    code = (
        "import sys; from retinue.core.template import template; "
        "template('plain').render({}); print('jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
