"""What working processes tell the page: JSON-ready news of a task."""

from __future__ import annotations

from typing import Any

#: One piece of news: its ``kind``, and what belongs to it.
Event = dict[str, Any]
