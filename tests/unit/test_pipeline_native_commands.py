"""What becomes of a command: what is text stays as it is, and what is a value arrives as it is."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from turnout.pipeline.native import plan, read

#: Any argument that a program can be given.
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30) | st.text(
    st.sampled_from(" '\"\\$`!#*?[](){};&|<>\n\t~=-aé"), max_size=12
)
fragments = st.lists(
    st.sampled_from(
        ["${HOME}", "${a:-${b}}", "{a,b}", "{1..3}", "{}", "awk '{print $1}'", "{ ls; }", "}}", "{", "}", "%", "%s"]
    )
    | st.text(max_size=5),
    min_size=1,
).map("".join)


def argv_of(command: str | list[str], values: dict[str, list[object]]) -> tuple[str, ...]:
    step: dict[str, object] = {"command": command, **({"matrix": values} if values else {})}
    return plan(read({"steps": {"a": step}}, ""), lambda pattern: []).steps[0].runs[0].argv


def output_of(argv: tuple[str, ...]) -> str:
    done = subprocess.run(argv, capture_output=True, check=True, timeout=30)
    return done.stdout.decode()


@given(fragments)
@example("${a:-${b}}")
@example("find . -exec ls {} ;")
@example("{{a,b},c}")
def test_a_command_without_places_stays_as_it_is(text: str) -> None:
    assume(text.strip() and not re.search(r"(?<!\$)\{[A-Za-z_][A-Za-z0-9_.-]*\}", text))
    assume(not ("{{" in text and "}}" in text))
    assert argv_of(text, {}) == ("bash", "-euo", "pipefail", "-c", text)
    assert argv_of(["x", text], {}) == ("x", text)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("{{x}}", "{x}"),
        ("{{{x}}}", "{1}"),
        ("${{x}}", "${x}"),
        ("${x}", "${x}"),
        ("{x}{x}", "11"),
        ('{{"a": {{"b": {x}}}}}', '{"a": {"b": 1}}'),
        ('{{"a": {"b": {x} }}}', '{"a": {"b": 1 }}'),
        ('{"a": {"b": 2}}', '{"a": {"b": 2}}'),
        ("awk '{{print}}' {x}", "awk '{print}' 1"),
        ("docker ps --format '{{{{.Names}}}}'", "docker ps --format '{{.Names}}'"),
        ("{step}-{x}%", "a-1%"),
    ],
)
def test_braces(command: str, expected: str) -> None:
    assert argv_of(command, {"x": [1]})[-1] == expected
    assert argv_of([command], {"x": [1]}) == (expected,)


#: Where a place may stand, and what comes before and after the value in the only word that is printed.
WORDS = [
    ("printf '%s\\0' {v}", "", ""),
    ("printf '%s\\0' a{v}b", "a", "b"),
    ("printf '%s\\0' {v}  # it's {v}", "", ""),
    ("printf '%s\\0' \"{v}\"", "", ""),
    ("printf '%s\\0' \"a'{v}'b\"", "a'", "'b"),
    ("printf '%s\\0' 'a\"{v}\"b'", 'a"', '"b'),
    ("printf '%s\\0' $'a\\'{v}b'", "a'", "b"),
    ("printf '%s\\0' \"$(printf '%s.' {v})\"", "", "."),
    ("printf '%s\\0' \"$(printf '%s.' \"{v}\")\"", "", "."),
    ("printf '%s\\0' \"`printf '%s.' '{v}'`\"", "", "."),
    ("printf '%s\\0' \"`printf '%s.' a{v}`\"", "a", "."),
    ("printf '%s\\0' \"`printf '%s.' $'a{v}'`\"", "a", "."),
    ("printf '%s\\0' \"`printf '%s.' \"{v}b\"`\"", "", "b."),
    ("printf '%s\\0' \"${none:-x}\"{v}", "x", ""),
    ("(printf '%s\\0' \"$((1 << 2))\"{v})", "4", ""),
    ("if [[ {v} == \"{v}\" && ${#HOME} -gt 0 ]]; then printf '%s\\0' {v}; fi # \" '", "", ""),
    ("cat > /dev/null << EOF; printf '%s\\0' {v}\nit's $(echo) \"\nEOF\n", "", ""),
    ("cat > /dev/null << 'E F'\n\" {v} $(exit 1)\nE F\nprintf '%s\\0' {v}", "", ""),
    ('x="a\\"b"; printf \'%s\\0\' {v}', "", ""),
]


@pytest.mark.parametrize(("command", "before", "after"), WORDS)
@settings(max_examples=25, deadline=None)
@given(value=values)
@example(value='it\'s "$(exit 3)" `exit 3` \\ $HOME ${HOME} *')
@example(value="'")
@example(value='"')
@example(value='"{<(')
@example(value="\\")
@example(value="")
def test_a_value_in_a_text_is_one_word(command: str, before: str, after: str, value: str) -> None:
    assert output_of(argv_of(command, {"v": [value]})) == f"{before}{value}{after}\0"


@pytest.mark.parametrize("delimiter", ["EOF", "'EOF'", "\\EOF", "-EOF"])
@settings(max_examples=25, deadline=None)
@given(value=values)
@example(value="$HOME `exit 3` \\ \\\\ '")
def test_a_value_in_a_here_document_is_text(delimiter: str, value: str) -> None:
    assume(not delimiter.startswith("-") or "\t" not in value)  # which that delimiter strips
    assert output_of(argv_of(f"cat <<{delimiter}\na'{{v}}'b\nEOF\n", {"v": [value]})) == f"a'{value}'b\n"


@given(values)
def test_a_value_in_an_argv_is_what_it_is(value: str) -> None:
    assert argv_of(["x", "{v}", "a{v}"], {"v": [value]}) == ("x", value, f"a{value}")


def test_files_in_a_text_are_words_or_stay_within_quotes() -> None:
    steps = {
        "a": {"command": "x", "matrix": {"k": ["a b", "c'd"]}, "outputs": "{k}"},
        "b": {"command": "printf '%s\\0' {inputs}; printf '%s\\0' \"all: {inputs}\" 'all: {inputs}'", "collect": "a"},
        "c": {"command": ["x", "{inputs}", "-{inputs}", "{inputs.0}"], "collect": "a"},
    }
    _, b, c = plan(read({"steps": steps}, ""), lambda pattern: []).steps
    assert output_of(b.runs[0].argv).split("\0") == ["a b", "c'd", "all: a b c'd", "all: a b c'd", ""]
    assert c.runs[0].argv == ("x", "a b", "c'd", "-a b c'd", "a b")


def test_a_command_stops_where_something_fails() -> None:
    for text in ("false; echo no", "false | cat; echo no", "echo $unknown_variable"):
        with pytest.raises(subprocess.CalledProcessError):
            output_of(argv_of(text, {}))
