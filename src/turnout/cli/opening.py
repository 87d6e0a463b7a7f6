"""``turnout open``: the page on which a service shows a run or a job."""

from __future__ import annotations

from turnout.cli import render
from turnout.client import Client
from turnout.errors import Unavailable
from turnout.model.ids import is_job_name


def open_page(name: str, *, only_print: bool, json: bool) -> None:
    url = Client().monitor_url(name, is_job=is_job_name(name))
    if json:
        render.print_json({"name": name, "monitor_url": url})
    elif only_print:
        print(render.harmless(url))
    else:
        _open(url)
        print(f"opened {render.harmless(url)}")


def _open(url: str) -> None:
    import webbrowser

    if not url.startswith(("http://", "https://")) or not webbrowser.open(url):
        raise Unavailable(f"no browser opens {render.harmless(url)}", hint="--print tells the address alone")
