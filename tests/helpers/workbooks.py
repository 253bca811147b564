"""Workbooks made by hand: as few parts as a reader accepts."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns"

Rows = Sequence[Sequence[Any]]


def letters(column: int) -> str:
    return (letters(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


def _cell(reference: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{reference}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.date):
        days = (value - datetime.date(1899, 12, 30)).days
        return f'<c r="{reference}" s="1"><v>{days}</v></c>'
    if isinstance(value, str):
        return f'<c r="{reference}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{reference}"><v>{value!r}</v></c>'


def write_xlsx(path: Path, sheets: Mapping[str, Rows]) -> Path:
    """An Excel workbook; dates are numbers with a date's format, as Excel has them."""
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r" Type="{RELATION}'
        '/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/>'
        "</cellXfs></styleSheet>",
    }
    names, relations = [], [f'<Relationship Id="s" Type="{RELATION}/styles" Target="styles.xml"/>']
    types = []
    for i, (name, rows) in enumerate(sheets.items(), start=1):
        names.append(f'<sheet name={quoteattr(name)} sheetId="{i}" r:id="r{i}"/>')
        target = f"worksheets/sheet{i}.xml"
        relations.append(f'<Relationship Id="r{i}" Type="{RELATION}/worksheet" Target="{target}"/>')
        types.append(f'<Override PartName="/xl/{target}" ContentType="application/xml"/>')
        body = "".join(
            f'<row r="{r}">{"".join(_cell(f"{letters(c)}{r}", value) for c, value in enumerate(row))}</row>'
            for r, row in enumerate(rows, start=1)
        )
        parts[f"xl/{target}"] = f'<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData></worksheet>'
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{MAIN}" xmlns:r="{RELATION}"><sheets>{"".join(names)}</sheets></workbook>'
    )
    parts["xl/_rels/workbook.xml.rels"] = (
        f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(relations)}</Relationships>'
    )
    parts["[Content_Types].xml"] = f'<Types xmlns="{PACKAGE}/content-types">{"".join(types)}</Types>'
    _pack(path, parts)
    return path


def write_ods(path: Path, sheets: Mapping[str, Rows]) -> Path:
    """An OpenDocument workbook of texts and numbers."""
    tables = []
    for name, rows in sheets.items():
        body = "".join(
            "<table:table-row>"
            + "".join(
                f'<table:table-cell office:value-type="float" office:value="{value}"/>'
                if isinstance(value, int | float)
                else "<table:table-cell/>"
                if value is None
                else f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p></table:table-cell>'
                for value in row
            )
            + "</table:table-row>"
            for row in rows
        )
        tables.append(f"<table:table table:name={quoteattr(name)}>{body}</table:table>")
    spaces = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "table", "text"))
    content = (
        f"<office:document-content {spaces}><office:body><office:spreadsheet>{''.join(tables)}"
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    entry = f'<m:file-entry m:full-path="/" m:media-type="{kind}"/>'
    manifest = f'<m:manifest xmlns:m="{OFFICE}:manifest:1.0">{entry}</m:manifest>'
    _pack(path, {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})
    return path


def _pack(path: Path, parts: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            plain = name == "mimetype"
            archive.writestr(name, text if plain else HEAD + text, zipfile.ZIP_STORED if plain else None)
