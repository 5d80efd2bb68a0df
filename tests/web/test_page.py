"""The page in a real browser: it shows what the routes say, of one tenant, as text; with the keyboard too."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.receipt import Receipt, is_genuine
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.contracts.safe_text import as_data
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.settings import Settings
from tests.support.hostile import ALL
from tests.support.letters import rejected
from tests.support.pipeline import PARTITIONS, Pipeline, create_topics, new_settings, running
from tests.support.records import START_MS, event
from tests.support.service import serving
from tests.support.sessions import session
from tests.support.waiting import until
from tests.web.browser import ELEMENT, ENTER, TAB, Browser, browsing

MARKUP = "<img src=x onerror='document.title=1'><b>bold</b>"
HOSTILE = "\u202e<img src=x onerror='document.title=1'>[hmx]"
VIEWS = (
    "overview",
    "live",
    "ask",
    "artifacts",
    "knowledge",
    "patterns",
    "people",
    "letters",
    "sessions",
    "sessions/session-11",
)
KEYS = 40
"""More than it takes to come from a question to the first entry of its answer."""
RULES = {"light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], "dark": ["color-contrast"]}
"""What axe looks for: by night only what differs from the day."""
WIDE, NARROW = (1280, 900), (390, 844)
pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """Two tenants' sessions in two rounds, so that artifacts have versions; some of what came was no event."""
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service") as started:
        for numbers in (range(8), range(8, 24)):
            publish([orjson.dumps(item) for n in numbers for item in session(n)], settings)
            wait_for_all(settings)
        publish([orjson.dumps(item) for n in range(3) for item in session(n, "globex")], settings)
        said = event("marked", 0, at=START_MS, event_type="message", content={"role": "user", "text": MARKUP})
        publish([b"no event", b"{}", orjson.dumps({**said, "tenant_id": "acme"})], settings)
        hostile = (
            event(text, 0, at=START_MS, tenant_id=HOSTILE, content={"role": "user", "text": f"deploy {text}"})
            for text in ALL
        )
        publish([orjson.dumps(item) for item in hostile], settings)
        wait_for_all(settings)
        yield started


@pytest.fixture(scope="module")
def settings(pipeline: Pipeline) -> Settings:
    return pipeline.settings


@pytest.fixture(scope="module")
def shared() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(shared: Browser, settings: Settings) -> Iterator[Browser]:
    """What the console says of it is looked at in the end: nothing refused, nothing raised."""
    shared.view(*WIDE)
    shared.open("about:blank")
    shared.told()
    yield shared
    assert shared.told() == []


def show(browser: Browser, settings: Settings, view: str) -> None:
    browser.open("about:blank")  # or only what stands behind # would change
    browser.open(f"{settings.service_url}/#{view}")


def told(settings: Settings, path: str, tenant: str = "acme") -> Any:
    return httpx.get(f"{settings.service_url}/v1/hmx/{path}", headers={"X-HMX-Tenant": tenant}, timeout=60).json()


def rows(browser: Browser, region: str) -> list[list[str]]:
    """The cells of a table by its name, as they are shown."""
    browser.one(f"[role=group][aria-label='{region}'] tbody tr")
    script = """return [...document.querySelectorAll(`[role=group][aria-label='${arguments[0]}'] tbody tr`)]
      .map(row => [...row.children].map(cell => cell.innerText.trim()))"""
    return list(browser.run(script, region))


@pytest.mark.requirement("K-06")
def test_the_overview_shows_what_verify_recounts(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "overview")
    report = verify(settings).as_json()
    outcomes = {row[0].replace(" ", "_"): int(row[1].replace(",", "")) for row in rows(browser, "Outcomes")}
    assert outcomes == report["outcomes"]
    reasons = {row[0]: int(row[1]) for row in rows(browser, "Dead letters by reason")}
    assert reasons == report["rejections"] == {"not_json": 1, "missing_field": 1}
    events = sum(count for name, count in outcomes.items() if name != "control")
    assert browser.one(".tile[aria-label='Events taken'] .value").text == f"{events:,}"
    assert browser.one(".tile[aria-label='Dead letters'] .value").text == "2"
    assert browser.one(".tile[aria-label='Processes'] .value").text == "2 of 2"
    assert browser.one(".tile[aria-label='In memory within'] .value").text.startswith("≤")
    assert len(rows(browser, "Processes")) == 2
    browser.one(".tile[aria-label='Events taken']", "a second")  # it looks again by itself


def test_what_was_folded_out_stays_so_while_the_overview_looks_again(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "overview")
    browser.one("section[aria-label='Stage sessions'] summary").click()
    assert len(rows(browser, "Partitions of the stage sessions")) == PARTITIONS
    browser.one(".tile[aria-label='Events taken']", "a second")
    assert len(rows(browser, "Partitions of the stage sessions")) == PARTITIONS


@pytest.mark.requirement("C-03")
def test_a_pack_is_shown_whole_and_each_entry_leads_to_its_events(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "ask")
    browser.one("textarea").type("deploy the payments service to staging: namespace not found")
    budget = browser.one("input[name=budget]")
    budget.clear()
    budget.type("300")
    browser.one("form.ask button").click()
    browser.one("section[aria-label='The pack']", "300 tokens")
    asked = {"query": "deploy the payments service to staging: namespace not found", "token_budget": 300}
    url, headers = f"{settings.service_url}/v1/hmx/context-packs", {"X-HMX-Tenant": "acme"}
    pack = httpx.post(url, json=asked, headers=headers).json()
    assert [each.text for each in browser.all("article .said")] == [entry["content"] for entry in pack["entries"]]
    sections = {name for name, given in pack["token_budget"]["section_budgets"].items() if given["used"]}
    bar = browser.run("return [...document.querySelectorAll('.stacked i')].map(one => one.className)")
    assert {name.removeprefix("fill ") for name in bar} == sections

    dropped = browser.one("section[aria-label='Left out'] summary")
    dropped.click()
    reasons = {row[1].replace(" ", "_") for row in rows(browser, "Candidates that were left out")}
    assert reasons == {one["drop_reason"] for one in pack["dropped_entries"]}

    for n, entry in enumerate(pack["entries"]):
        article = browser.all("article")[n]
        article.all("summary")[0].click()
        events = ids_of(settings, entry)
        shown = f"article:nth-of-type({place_of(pack, n)})"
        path = f".card[aria-label='{entry['section'].replace('_', ' ')}'] {shown} .events > li"
        browser.one(path)
        assert len(browser.all(path)) == min(len(events), 9), "eight, and how many more"
        first = browser.all(f"{path} summary")[0]
        first.click()
        assert events[0] in browser.one(f"{path} pre").text


def test_the_text_to_paste_is_shown_and_copied(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "ask")
    question = "deploy the payments service to staging: namespace not found"
    browser.one("textarea").type(question)
    browser.one("form.ask button").click()
    url, headers = f"{settings.service_url}/v1/hmx/context-packs", {"X-HMX-Tenant": "acme"}
    asked = {"query": question, "token_budget": 1200, "as_text": True}
    text = httpx.post(url, json=asked, headers=headers).json()["metadata"]["as_text"]
    browser.one("section[aria-label='To paste'] .pasted")
    assert browser.run("return document.querySelector('.pasted').textContent") == text
    browser.one("section[aria-label='To paste'] .copy").click()
    browser.one("section[aria-label='To paste'] [role=status]", "cop")


def test_two_packs_stand_side_by_side(browser: Browser, settings: Settings) -> None:
    query = "deploy the payments service to staging: namespace not found"
    show(browser, settings, "ask")
    browser.one("textarea").type(query)
    held = []
    for budget in (1200, 100):
        field = browser.one("input[name=budget]")
        field.clear()
        field.type(str(budget))
        browser.one("form.ask button").click()
        browser.one("section[aria-label='The pack']", f"{budget:,} tokens")
        asked = {"query": query, "token_budget": budget}
        path, tenant = f"{settings.service_url}/v1/hmx/context-packs", {"X-HMX-Tenant": "acme"}
        pack = httpx.post(path, json=asked, headers=tenant, timeout=60).json()
        held.append({entry["source_id"] for entry in pack["entries"]})
        assert len(browser.all("article .said")) == len(pack["entries"])
        if not browser.all(".two"):
            browser.one("section[aria-label='Compare'] button").click()
            browser.one("section[aria-label='Compare']", "is kept")
    before, now = len(held[0] - held[1]), len(held[1] - held[0])
    assert before > 0
    browser.one("section[aria-label='Compare']", f"{before} only in the kept pack, {now} only in this one")
    assert len(browser.all(".two .only")) == len(browser.all(".two .none")) == before + now


def streams(settings: Settings) -> float:
    told = httpx.get(f"{settings.service_url}/metrics").text
    return float(re.findall(r'^hmx_http_streams\{kind="sse"\} (\S+)$', told, re.MULTILINE)[0])


def test_what_comes_is_shown_as_it_comes_and_the_stream_ends_with_the_view(
    browser: Browser, settings: Settings
) -> None:
    show(browser, settings, "live")
    browser.one("section[aria-label='Live']", "following")
    assert streams(settings) == 1
    said = {"role": "user", "text": "the kingfisher is at the weir"}
    publish([orjson.dumps(event("live-1", 0, at=START_MS, event_type="message", content=said))], settings)
    browser.one("section[aria-label='Sessions'] article", "the kingfisher is at the weir")
    browser.one("section[aria-label='Live'] button").click()
    title = told(settings, "artifacts?type=task_schema")["artifacts"][0]["title"]
    browser.one("section[aria-label='Learnt'] article", title.replace("`", ""))
    browser.one("section[aria-label='Sessions'] .learnt li", "segment of")
    assert len(browser.all("section[aria-label='Sessions'] article")) <= 12
    browser.one("nav a", "Sessions").click()
    until(lambda: streams(settings) == 0, "the stream has ended")


def test_a_dead_letter_is_shown_as_data_and_sent_again_once_it_is_corrected(
    browser: Browser, settings: Settings
) -> None:
    wrong = event("letters", 0, at=START_MS, event_type="message", content={"role": "user", "text": MARKUP})
    publish([orjson.dumps({**wrong, "timestamp": "yesterday"})], settings)
    wait_for_all(settings)
    show(browser, settings, "letters")
    until(lambda: bool(browser.all("section.letter")) or show(browser, settings, "letters"), "they are read anew")
    browser.one("ul[aria-label='Reasons'] a", "bad timestamp").click()
    until(lambda: len(browser.all("section.letter")) == 1, "one reason alone is shown")
    letter = browser.one("section.letter", "RFC 3339")
    for each in letter.all("summary"):
        each.click()
    assert MARKUP in browser.one("section.letter pre").text
    assert not browser.all("main img")
    browser.one("section.letter button", "Replay")
    text = browser.one("section.letter textarea")
    browser.run("arguments[0].value = arguments[1]", {ELEMENT: text.name}, json.dumps(wrong))
    browser.one("section.letter form button").click()
    browser.one("section.letter", "Kafka has it").all("a")[-1].click()
    browser.one(".timeline", "onerror")


def test_a_pack_is_asked_for_the_person_in_the_field(browser: Browser, settings: Settings) -> None:
    said = {"role": "user", "text": "the heron sits in locker twelve"}
    about = {"at": START_MS, "event_type": "message", "metadata": {"user_id": "ann"}, "tenant_id": "acme"}
    publish([orjson.dumps(event("of-ann", 0, content=said, **about))], settings)
    wait_for_all(settings)
    for subject, seen in (("", False), ("ann", True)):
        show(browser, settings, "overview")
        show(browser, settings, "ask")
        browser.one("textarea").type("who sits in locker twelve")
        browser.one("input[name=subject]").type(subject)
        browser.one("form.ask button").click()
        browser.one("section[aria-label='The pack']")
        assert any("heron" in each.text for each in browser.all("article .said")) == seen


def remember(settings: Settings, subject: str, text: str, tenant: str = "acme") -> str:
    """The record that a person's statement becomes."""
    about = {"at": START_MS, "event_type": "message", "metadata": {"user_id": subject}, "tenant_id": tenant}
    said = event(f"of-{subject}", 0, content={"role": "user", "text": text}, **about)
    publish([orjson.dumps(said)], settings)
    wait_for_all(settings)
    (record,) = told(settings, f"knowledge?subject={subject}&kind=memory", tenant)["records"]
    return str(record["record_id"])


def test_what_is_known_is_found_and_corrected(browser: Browser, settings: Settings) -> None:
    known = remember(settings, "bea", "My home address is 12 Oak Street.")
    show(browser, settings, "knowledge")
    browser.one("input[name=subject]").type("bea" + ENTER)
    until(lambda: [row[2] for row in rows(browser, "Knowledge")] == ["bea"], "what is hers alone is listed")
    browser.one(f"tbody a[href='#knowledge/{known}']").click()
    browser.one("section[aria-label='Rule on it'] input[name=value]").type("9 Elm Road")
    browser.one("section[aria-label='Rule on it'] input[name=reason]").type("she moved")
    browser.one("button[value=correct]").click()
    browser.one("main a", "what holds now").click()
    browser.one("main h2", "9 Elm Road")
    (holds,) = told(settings, "knowledge?subject=bea&kind=memory")["records"]
    assert "9 Elm Road" in holds["text"]


def test_a_person_is_erased_and_the_receipt_says_what_went(browser: Browser, settings: Settings) -> None:
    remember(settings, "cyd", "My home address is 7 Ash Lane.", "initech")
    show(browser, settings, "overview")
    browser.one(".tile")
    browser.run("localStorage.setItem('tenant', 'initech')")
    show(browser, settings, "knowledge")
    browser.one("section[aria-label='Erase'] summary").click()
    browser.one("section[aria-label='Erase'] input[name=name]").type("cyd")
    browser.one("section[aria-label='Erase'] input[name=again]").type("cid" + ENTER)
    assert (
        browser.run("return document.querySelector('input[name=again]').validationMessage") == "The two names differ."
    )
    assert told(settings, "knowledge?subject=cyd", "initech")["records"]
    browser.one("section[aria-label='Erase'] input[name=again]").clear()
    browser.one("section[aria-label='Erase'] input[name=again]").type("cyd" + ENTER)
    browser.one("section[aria-label='Erase'] a[download]", "Keep the receipt")
    browser.all("section[aria-label='Erase'] summary")[-1].click()
    receipt = json.loads(browser.one("section[aria-label='Erase'] pre").text)
    assert is_genuine(Receipt.model_validate_json(orjson.dumps(receipt)))
    assert receipt["name"] == "cyd"
    assert receipt["gone"]
    assert told(settings, "knowledge?subject=cyd", "initech")["records"] == []
    browser.run("localStorage.clear()")


def place_of(pack: dict[str, Any], n: int) -> int:
    """Which article of its section an entry is."""
    before = [entry["section"] for entry in pack["entries"][: n + 1]]
    return before.count(before[-1])


def ids_of(settings: Settings, entry: dict[str, Any]) -> list[str]:
    if entry["source_type"] == "episode":
        return [entry["source_id"]]
    kind = "artifacts" if entry["source_type"] == "artifact" else "knowledge"
    return list(told(settings, f"{kind}/{entry['source_id']}")["source_events"])


@pytest.mark.requirement("A-26")
def test_artifacts_are_found_by_type_and_status_and_their_versions_by_each_other(
    browser: Browser, settings: Settings
) -> None:
    show(browser, settings, "artifacts")
    counts = told(settings, "counts")["artifacts"]
    shown = {row[0].replace(" ", "_"): row[1:] for row in rows(browser, "Artifacts by type and status")}
    statuses = ("active", "draft", "superseded", "deprecated", "archived")
    assert shown == {kind: [str(has.get(status, "–")) for status in statuses] for kind, has in counts.items()}

    browser.one("a[href='#artifacts/task_schema/superseded']").click()
    browser.one("section[aria-label='task schema, superseded'] tbody a").click()
    chain = browser.one("ol.chain")
    versions = [each.text for each in chain.all("li b")]
    assert versions == [f"v{n}" for n in range(1, len(versions) + 1)]
    assert len(versions) > 1
    chain.all("a")[-1].click()
    here = browser.one("ol.chain a[aria-current]", versions[-1])
    assert "active" in here.text
    assert here.attribute("href") != chain_start(browser)
    browser.one("section[aria-label='What it rests on'] summary").click()
    browser.one("section[aria-label='What it rests on'] .events li", "message")


def test_a_version_is_shown_beside_the_one_before_and_leads_to_its_sessions(
    browser: Browser, settings: Settings
) -> None:
    known = told(settings, "artifacts?type=task_schema")["artifacts"]
    now = next(one for one in known if one.get("supersedes"))
    before = told(settings, f"artifacts/{now['supersedes']}")
    show(browser, settings, f"artifact/{now['artifact_id']}")
    browser.one("section[aria-label='What changed since the version before'] ins", f"runs {now['observed_count']}")
    browser.one("section[aria-label='What changed since the version before'] del", f"runs {before['observed_count']}")
    sources = [told(settings, f"contributions/{name}") for name in now["source_memory_ids"]]
    newest = max(sources, key=lambda one: one["first_at"])
    branch = browser.one("section[aria-label='What it rests on'] .branch a")
    assert branch.text == newest["session_id"]
    branch.click()
    browser.one("main h2", f"Session {newest['session_id']}")
    browser.one(".timeline details[open] pre", newest["source_events"][0])


@pytest.mark.requirement("K-06")
def test_a_session_is_shown_on_a_time_axis_with_its_segments_and_what_rests_on_them(
    browser: Browser, settings: Settings
) -> None:
    show(browser, settings, "sessions")
    browser.one("input[name=text]").type("SESSION-11")
    until(lambda: [row[0] for row in rows(browser, "Sessions")] == ["session-11"], "the session is found")
    browser.one("tbody a", "session-11").click()
    answer = told(settings, "sessions/session-11")
    browser.one("section[aria-label='Session session-11']", f"{len(answer['events'])} events")
    assert len(browser.all(".axis .dot")) == len(browser.all(".timeline > li")) == len(answer["events"])
    (segment,) = answer["segments"]
    assert browser.one(".band .badge").text == segment["outcome"]
    learnt = [each.attribute("href") for each in browser.all(".learnt a")]
    assert learnt == [f"#{one['kind']}/{one['id']}" for one in segment["learnt"]]
    assert learnt
    browser.one(".timeline summary").click()
    browser.one(".timeline pre", answer["events"][0]["event_id"])
    show(browser, settings, "sessions/nobody%2Fknows")
    browser.one("[role=alert]", "no session with this id")
    browser.told()  # the console says that it was not found


def chain_start(browser: Browser) -> str | None:
    return browser.all("ol.chain a")[0].attribute("href")


def test_a_letter_goes_back_at_a_click_and_only_once(browser: Browser, settings: Settings) -> None:
    rejected(settings, orjson.dumps({**event("sent-back", 0, at=START_MS), "tenant_id": "globex"}), Reason.TOO_DEEP)
    browser.open(f"{settings.service_url}/?tenant=globex#letters/too_deep")
    for says in ("in the log again", "it was sent back before"):
        browser.one(".letter details:last-of-type summary").click()
        browser.one(".letter button", "Replay").click()
        browser.one(".letter", says)
        browser.run("location.reload()")
    wait_for_all(settings)
    assert len(told(settings, "sessions/sent-back", "globex")["events"]) == 1
    browser.told()  # the console says that the second time was refused


def test_an_artifact_is_found_by_its_words_and_retired(browser: Browser, settings: Settings) -> None:
    (known,) = told(settings, "artifacts?type=failure_playbook&limit=1")["artifacts"]
    words = " ".join(known["title"].upper().split()[:2])
    browser.open(f"{settings.service_url}/?tenant=acme#artifacts/failure_playbook/active/nowhere")
    browser.one("main", "No such artifact has these words")
    field = browser.one("input[name=text]")
    field.clear()
    field.type(words + ENTER)
    browser.one(f"tbody a[href='#artifact/{known['artifact_id']}']").click()
    browser.one("section[aria-label='What it rests on'] .lineage circle")
    browser.one("section[aria-label='Archive'] summary").click()
    browser.one("section[aria-label='Archive'] input[name=reason]").type("replaced")
    browser.one("section[aria-label='Archive'] button").click()
    browser.one("main .badge", "archived")
    assert told(settings, f"artifacts/{known['artifact_id']}")["status"] == "archived"


def test_a_link_shows_the_same_tenant_and_question_to_whoever_opens_it(browser: Browser, settings: Settings) -> None:
    browser.open(f"{settings.service_url}/?tenant=globex#ask/{quote('deploy payments to staging')}")
    browser.one("section[aria-label='The pack']")
    assert browser.run("return document.getElementById('tenant').value") == "globex"
    assert browser.run("return document.querySelector('textarea').value") == "deploy payments to staging"


def test_the_tables_are_those_of_the_tenant_and_sorted_by_their_heads(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "sessions")
    assert len(rows(browser, "Sessions")) == len(told(settings, "tables/sessions?limit=50", "acme")["rows"]) >= 25
    browser.one("thead button", "released").click()
    browser.one("th[aria-sort]", "released")
    released = [int(row[1]) for row in rows(browser, "Sessions")]
    assert released == sorted(released, reverse=True)

    browser.run("const all = document.getElementById('tenant'); all.value = 'globex'; "
                "all.dispatchEvent(new Event('change'))")  # fmt: skip
    theirs = told(settings, "tables/sessions?limit=50", "globex")["rows"]
    until(lambda: len(rows(browser, "Sessions")) == len(theirs) < 10, "the other tenant's sessions are shown")
    show(browser, settings, "patterns")
    patterns = told(settings, "tables/patterns?limit=500", "globex")
    assert len(rows(browser, "Patterns")) == min(50, patterns["totals"]["patterns"])
    browser.run("localStorage.clear()")


def test_what_agents_wrote_is_never_markup(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "ask")
    browser.one("textarea").type("bold img src onerror title")
    browser.one("form.ask button").click()
    browser.one("article .said", as_data(MARKUP))
    assert not browser.all("main img, main b[onerror], article b b")
    assert browser.run("return document.title") == "HMX memory"


def test_no_name_or_text_of_a_tenant_is_more_than_text(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "overview")
    browser.one(".tile")
    browser.run(f"localStorage.setItem('tenant', {json.dumps(HOSTILE)})")
    made = set()
    for view in (*VIEWS[:-1], *(f"sessions/{quote(text, safe='')}" for text in ALL[::8])):
        show(browser, settings, view)
        browser.one("main .view > *")
        assert browser.run("return document.getElementById('tenant').value") == HOSTILE
        if view == "ask":
            browser.one("textarea").type("deploy onerror")
            browser.one("form.ask button").click()
            browser.one("article .said")
        if view == "sessions":
            until(lambda: len(rows(browser, "Sessions")) == min(50, len(ALL)), "its sessions are shown")
            assert browser.run("return getComputedStyle(document.querySelector('td')).unicodeBidi") == "isolate"
        made |= set(browser.run("return [...document.querySelectorAll('main *')].map(each => each.localName)"))
        assert not browser.run(
            "return [...document.querySelectorAll('main a')].filter(each => each.protocol !== location.protocol).length"
        )
        assert browser.run("return document.title") == "HMX memory"
    assert not made & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "link",
        "style",
        "base",
        "meta",
        "x",
        "context",
        "system",
    }
    browser.run("localStorage.clear()")


def test_everything_can_be_reached_and_used_by_keyboard(browser: Browser, settings: Settings) -> None:
    show(browser, settings, "overview")
    browser.one(".tile")
    browser.press(TAB)
    assert browser.run("return document.activeElement.innerText") == "Skip to the content"
    browser.press(ENTER)
    assert browser.run("return document.activeElement.id") == "main"
    browser.open(f"{settings.service_url}/#ask")
    browser.one("textarea")
    until(lambda: browser.run("return document.activeElement.tagName") == "TEXTAREA", "the question can be typed")
    browser.press(*"deploy payments")
    browser.press(TAB, TAB, TAB)
    assert browser.run("return document.activeElement.innerText") == "Ask"
    browser.press(ENTER)
    browser.one("section[aria-label='The pack']")
    browser.one("article summary")
    for _ in range(KEYS):
        browser.press(TAB)
        if browser.run("return document.activeElement.matches('article summary')"):
            break
    browser.press(ENTER)
    browser.one("article details[open] .events li")


def test_the_documentation_shows_every_route_and_the_browser_refuses_nothing_of_it(
    browser: Browser, settings: Settings
) -> None:
    browser.open(f"{settings.service_url}/docs/api")
    routes = httpx.get(f"{settings.service_url}/openapi.json", timeout=60).json()["paths"]
    assert len(browser.all("section")) == sum(len(item) for item in routes.values())
    assert browser.told() == []
    browser.open(f"{settings.service_url}/docs/")
    browser.one("input[name=q]").type("dead letters" + ENTER)
    browser.one("main a", "Dead letters").click()
    browser.one("h1", "Operate")
    assert browser.run("return document.getElementById('dead-letters').getBoundingClientRect().top") < WIDE[1]
    assert browser.told() == []


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_no_view_is_wider_than_the_window(browser: Browser, settings: Settings, size: tuple[int, int]) -> None:
    browser.view(*size)
    for view in VIEWS:
        show(browser, settings, view)
        browser.one("main .card")
        if view == "ask":
            browser.one("textarea").type("deploy payments")
            browser.one("form.ask button").click()
            browser.one("article")
        assert browser.run("return document.documentElement.scrollWidth") <= size[0], view


def test_axe_finds_nothing_wrong_by_day_or_by_night(browser: Browser, settings: Settings) -> None:
    """WCAG 2.2 AA as far as a program can tell, contrast included, also of what is unfolded."""
    axe = Path(import_module("axe_playwright_python").__path__[0], "axe.min.js").read_text()
    known = [one["artifact_id"] for one in told(settings, "artifacts?type=task_schema")["artifacts"]]
    wrong: dict[tuple[str, ...], str] = {}
    for scheme, rules in RULES.items():
        browser.view(*WIDE, scheme)
        for view in (*VIEWS, f"artifact/{known[0]}"):
            show(browser, settings, view)
            browser.one("main .card")
            if view == "ask":
                browser.one("textarea").type("deploy payments")
                browser.one("form.ask button").click()
                browser.one("article")
            browser.run("document.querySelectorAll('summary').forEach(each => each.click())")
            until(lambda: not browser.all("[aria-busy]"), "everything is read")
            found = browser.run(f"{axe}; return axe.run({{runOnly: {rules}}}).then(said => said.violations)")
            wrong |= {(scheme, view, one["id"]): one["nodes"][0]["html"] for one in found}
    assert wrong == {}


def test_where_nothing_has_come_in_each_view_says_what_to_do(browser: Browser, kafka: str, redis_url: str) -> None:
    fresh = new_settings(kafka, redis_url, processes="")
    create_topics(fresh)
    with serving(fresh) as service:
        url = str(service.base_url).rstrip("/")
        for view, says in (
            ("overview", "hmx publish"),
            ("artifacts", "a tenant"),
            ("knowledge", "a tenant"),
            ("sessions", "a tenant"),
            ("ask", "Ask memory"),
        ):
            browser.open("about:blank")
            browser.open(f"{url}/#{view}")
            browser.one("main", says)
        browser.open(f"{url}/#overview")
        browser.one(".tile[aria-label='Processes']", "HMX_PROCESSES")
    browser.told()  # what is asked without a tenant is refused, and the console says so


def test_where_there_are_keys_the_page_asks_for_one_and_says_what_it_may(
    browser: Browser, kafka: str, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    reader, admin = (add(file, Grant("acme", frozenset(scopes))) for scopes in ({Scope.READ}, set(Scope)))
    guarded = new_settings(kafka, redis_url, api_keys=str(file))
    create_topics(guarded, partitions=1)
    with serving(guarded) as service:
        url = str(service.base_url).rstrip("/")
        browser.open(f"{url}/#sessions")
        browser.one("[role=alert]", "hmx keys new")
        enter(browser, reader)
        browser.one("main", "No session of this tenant")
        browser.open(f"{url}/#overview")
        browser.one("[role=alert]", "admin")
        enter(browser, admin)
        browser.one("main", "hmx publish")
    browser.run("sessionStorage.clear()")
    browser.told()


def enter(browser: Browser, key: str) -> None:
    field = browser.one("#key")
    field.clear()
    field.type(key + ENTER)


def test_when_the_service_is_away_the_page_says_so_and_comes_back_by_itself(
    browser: Browser, pipeline: Pipeline, settings: Settings
) -> None:
    show(browser, settings, "overview")
    browser.one(".tile")
    assert pipeline.stop("service") == 0
    browser.one("[role=alert]", "does not answer")
    pipeline.start("service")
    browser.one(".tile")
    browser.told()
