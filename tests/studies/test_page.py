"""The page of `deadtime report` in a browser.

It is narrow and wide, light and dark, enlarged, downloaded and printed.
"""

import base64
import csv
import json
import re
import shutil
import time
from itertools import chain, pairwise, product
from math import isclose
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from deadtime.studies.report import page

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
WITHOUT = (
    "the page is tested in Chromium, with its driver: apt-get install chromium chromium-driver"
)
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WITHOUT),
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow,
]

PHONE = 390
DESKTOP = 1280
PAPER = 718
"""Widths in pixels; paper is A4 within its margins."""
VIEWS = [*product((PHONE, DESKTOP), ("light", "dark"))]
FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-dev-shm-usage",
    "no-proxy-server",
    "host-resolver-rules=MAP * ~NOTFOUND",
)
OPEN = "for (const one of document.querySelectorAll('details')) one.open = true;"
SCROLLED = """
const wide = box => box.scrollWidth > box.clientWidth;
return [...document.querySelectorAll(".scroll")].filter(wide).length;
"""
COLOURS = """
const found = new Set();
const isText = node => node.nodeType == 3 && node.data.trim();
const ground = element => getComputedStyle(element).backgroundColor;
for (const element of document.querySelectorAll("body *")) {
  if (!element.checkVisibility() || ![...element.childNodes].some(isText)) continue;
  let behind = element;
  while (behind && ground(behind) == "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const kinds = ["above", "agrees", "below", "soft"];
  const kind = kinds.find(word => element.classList.contains(word)) ?? element.localName;
  found.add([kind, getComputedStyle(element).color, behind && ground(behind)].join(";"));
}
return [...found].map(text => text.split(";"));
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(Path(__file__).parents[2] / "results" / "paper", "2026-01-03"))
    return path.as_uri()


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "WARNING", "performance": "ALL"})
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("no_proxy", "*")
        with webdriver.Chrome(options, webdriver.ChromeService(DRIVER)) as driver:
            yield driver


@pytest.fixture
def show(browser, address):
    """Load the page anew, the logs empty, at a width, in a colour scheme, and as if on a medium."""

    def shown(width=DESKTOP, scheme="light", medium=""):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
        look = {"media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        browser.get("about:blank")
        browser.get_log("browser"), browser.get_log("performance")
        browser.get(address)
        return browser

    return shown


@pytest.fixture(params=VIEWS, ids=str)
def view(request, show):
    return show(*request.param)


def luminance(colour):
    channels = (int(x) / 255 for x in re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour).groups())
    linear = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels)
    return sum(x * weight for x, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(*colours):
    dark, light = sorted(luminance(colour) for colour in colours)
    return (light + 0.05) / (dark + 0.05)


def test_it_complains_of_nothing_and_asks_for_nothing(view):
    assert view.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in view.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert [url for url in asked if not url.startswith("data:")] == [view.current_url]


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_only_tables_are_wider_than_the_window_and_scroll_in_their_box(show, width, scheme):
    browser = show(width, scheme)
    widest = "return Math.max(document.body.scrollWidth, document.documentElement.scrollWidth)"
    assert browser.execute_script(OPEN + widest) <= width
    assert browser.execute_script(SCROLLED) > 0


def test_the_first_tables_are_not_cut_on_a_desktop(show):
    tables = "[...document.querySelectorAll('section > .scroll')]"
    tables = f"return {tables}.map(box => box.scrollWidth - box.clientWidth)"
    assert show(DESKTOP).execute_script(tables) == [0, 0]  # of each preset


def test_all_text_can_be_read(view):
    colours = view.execute_script(OPEN + COLOURS)
    assert {kind for kind, *_ in colours} >= {
        "p",
        "a",
        "td",
        "code",
        "soft",
        "above",
        "agrees",
        "below",
    }
    assert [(kind, *pair) for kind, *pair in colours if contrast(*pair) < 4.5] == []


def test_dark_is_dark_and_light_is_light(show):
    script = (
        "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    )
    text, ground = map(luminance, show(scheme="light").execute_script(script))
    assert text < 0.2 < ground
    text, ground = map(luminance, show(scheme="dark").execute_script(script))
    assert ground < 0.2 < text


def test_images_headings_links_and_ids(view):
    images = view.execute_script(
        "return [...document.images].map(image => [image.alt.trim(), image.naturalWidth])"
    )
    assert images
    assert all(alt and width > 0 for alt, width in images)
    headings = view.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.localName[1])"
    )
    assert headings[0] == 1
    assert all(later <= level + 1 for level, later in pairwise(headings))
    ids = view.execute_script(
        "return [...document.querySelectorAll('[id]')].map(element => element.id)"
    )
    assert len(ids) == len({*ids})
    links = view.execute_script("return [...document.links].map(link => link.getAttribute('href'))")
    assert {link for link in links if not link.startswith("data:")} <= {f"#{name}" for name in ids}


def test_it_has_no_script(show):
    script = (
        "[...e.attributes].some(a => a.name.startsWith('on') || a.value.startsWith('javascript:'))"
    )
    script = f"filter(e => e.localName == 'script' || {script})"
    script = f"return [...document.querySelectorAll('*')].{script}.length"
    assert show().execute_script(script) == 0


def test_each_download_is_the_table_above_it(show, tmp_path):
    browser = show()
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    links = browser.find_elements("css selector", "a[download]")
    assert len(links) == len(browser.find_elements("css selector", "details table")) > 0
    for link in links:
        link.click()
        time.sleep(0.15)  # of more than ten downloads in a second, Chromium drops the eleventh
        path = tmp_path / link.get_attribute("download")
        WebDriverWait(browser, 20).until(
            lambda _, path=path: path.exists(), f"{path.name} does not arrive"
        )
        table = "return [...arguments[0].closest('section').querySelectorAll('details tr')]"
        head, *rows = browser.execute_script(
            f"{table}.map(row => [...row.cells].map(cell => cell.textContent))", link
        )
        names, *lines = csv.reader(path.read_text().splitlines())
        assert head == [name.replace("_", " ") for name in names]
        assert len(rows) == len(lines) > 0
        for shown, saved in zip(chain(*rows), chain(*lines), strict=True):
            same = shown == saved or (shown, saved) == ("–", "nan")
            assert same or isclose(float(shown), float(saved), rel_tol=1e-3)
    assert len([*tmp_path.iterdir()]) == len(links)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_full_size_fills_the_window_and_close_returns(show, width):
    browser = show(width)
    box = "const box = arguments[0].getBoundingClientRect(); "
    box += "return [box.left, box.top, box.right, box.bottom]"
    at = "return document.elementFromPoint(...arguments).closest('a, figure')"
    figures = browser.find_elements("css selector", "figure")
    assert figures
    for figure in figures:
        before = figure.size
        close = figure.find_element("css selector", ".close")
        figure.find_element("css selector", ".open").click()
        assert browser.execute_script(box, figure) == [0, 0, width, 800]
        assert browser.execute_script(at, width / 2, 400) == figure
        browser.execute_script("arguments[0].scrollTo(9999, 9999)", figure)
        left, top, right, bottom = browser.execute_script(box, close)
        assert browser.execute_script(at, (left + right) / 2, (top + bottom) / 2) == close
        close.click()
        assert figure.size == before
        assert not close.is_displayed()


def test_it_prints_whole_and_in_light_colours(show):
    browser = show(PAPER, "dark", "print")
    first = browser.find_element("css selector", "figure").get_attribute("id")
    browser.get(f"{browser.current_url}#{first}")
    figure = browser.find_element("css selector", "figure")
    assert figure.value_of_css_property("position") == "static"
    of_a_screen = browser.find_elements("css selector", "nav, .open, .close, a[download], summary")
    assert [element.text for element in of_a_screen if element.is_displayed()] == []
    assert browser.execute_script(SCROLLED) == 0
    grounds = [ground for *_, ground in browser.execute_script(COLOURS)]
    assert [ground for ground in grounds if luminance(ground) < 0.5] == []
    pdf = base64.b64decode(show(scheme="dark").execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert len(pdf) > 20_000
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", pdf)) < 60
