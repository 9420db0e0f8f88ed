"""The text of a PDF, page by page. Runs in a process of its own, see `convert`."""

from __future__ import annotations

import io

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from retinue.files.documents import Text


def read(data: bytes, max_pages: int) -> Text | str:
    """The first pages' text, each under its number; or why there is none."""
    try:
        reader = PdfReader(io.BytesIO(data))
        count = len(reader.pages)
        pages = [reader.pages[n].extract_text().strip() for n in range(min(count, max_pages))]
    except (DependencyError, FileNotDecryptedError):
        return "it is encrypted"
    except PyPdfError:
        return "it is no PDF that can be read"
    if not any(pages):
        return f"there is no text in it ({count} pages, scanned perhaps)"
    text = "\n\n".join(f"[Page {n} of {count}]\n{page}" for n, page in enumerate(pages, 1))
    return Text(text, f"only the first {max_pages} of its {count} pages are shown" if count > max_pages else "")
