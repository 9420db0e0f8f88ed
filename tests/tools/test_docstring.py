from __future__ import annotations

from retinue.tools.docstring import Docstring, read_docstring

GOOGLE = """What is known about a city.

    It is looked up.

    Args:
        city (str): Its name,
            as people say it.
        limit: How much.

    Returns:
        A text.
    """
NUMPY = """What is known about a city.

    Parameters
    ----------
    city : str
        Its name,
        as people say it.
    limit, most : int
        How much.

    Returns
    -------
    str
        A text.
    """


def test_googles_style() -> None:
    assert read_docstring(GOOGLE) == Docstring(
        "What is known about a city.\n\nIt is looked up.\n\nReturns:\n    A text.",
        {"city": "Its name, as people say it.", "limit": "How much."},
    )


def test_numpys_style() -> None:
    assert read_docstring(NUMPY) == Docstring(
        "What is known about a city.\n\nReturns\n-------\nstr\n    A text.",
        {"city": "Its name, as people say it.", "limit": "How much.", "most": "How much."},
    )


def test_a_docstring_without_sections_is_text() -> None:
    assert read_docstring("One.\n\n    Two: three.") == Docstring("One.\n\nTwo: three.")
    assert read_docstring(None) == read_docstring("") == Docstring()
    assert read_docstring("Args:") == Docstring()
