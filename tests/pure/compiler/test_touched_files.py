"""touched: the files that a segment changed and met, small, whatever was said and done."""

from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.touched_files import CHANGED, SEEN
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import KB, STEP_TEXT
from tests.support.segments import Script


def touched(made: Script) -> Contribution | None:
    return next((c for c in contributions(made.segment()) if c.pattern_type == "touched"), None)


def working() -> Script:
    made = Script("s")
    made.user("Please make saveDraft() keep the old draft")
    made.add(Role.ACTION, name="grep -rn saveDraft src", ok=True, text="src/draft.py:12:def save_draft(text):")
    made.agent("I change store_draft")
    made.add(Role.ACTION, name="edit", text="src/store.py", ok=True)
    return made


def test_tells_changed_files_seen_files_and_the_identifiers_in_them() -> None:
    found = touched(working())
    assert found is not None
    assert found.body["changed"] == ["src/store.py"]
    assert found.body["seen"] == ["src/draft.py"]
    assert found.body["held"] == {"src/store.py": ["store_draft"], "src/draft.py": ["save_draft"]}
    assert found.body["names"] == ["saveDraft"]


def test_what_failed_or_was_removed_again_has_not_been_changed() -> None:
    made = working()
    made.add(Role.ACTION, name="edit", text="src/other.py", ok=False)
    made.add(Role.ACTION, name="edit", text="try_it.py", ok=True)
    made.tool("write_file", ok=False, values=("src/third.py",), error="read-only")
    made.add(Role.ACTION, name="python try_it.py && rm -f try_it.py", ok=True)
    found = touched(made)
    assert found is not None
    assert found.body["changed"] == ["src/store.py"]


def test_a_tool_that_changes_what_its_arguments_name_counts_and_one_that_reads_does_not() -> None:
    made = working()
    made.tool("write_file", values=("/home/me/app/src/new.py", "some text"))
    made.tool("read_file", values=("/home/me/app/src/old.py",))
    found = touched(made)
    assert found is not None
    assert found.body["changed"] == ["src/store.py", "/home/me/app/src/new.py"]
    assert "/home/me/app/src/old.py" in found.body["seen"]


def test_a_state_that_lists_the_changed_files_is_believed() -> None:
    made = working()
    made.add(Role.STATE, name="finished", values=("src/store.py", "src/draft.py"))
    found = touched(made)
    assert found is not None
    assert found.body["changed"] == ["src/store.py", "src/draft.py"]


def test_a_segment_that_names_no_file_says_nothing() -> None:
    made = Script("s")
    made.user("I want to return my order, e.g. order 12.5")
    made.tool("get_order")
    assert touched(made) is None


def test_stays_small_however_much_was_touched() -> None:
    made = Script("s")
    made.user(" ".join(f"some_name_{n}" for n in range(100)))
    for n in range(3 * CHANGED):
        made.agent(" ".join(f"identifier_{n}_{m}" for m in range(40))[:STEP_TEXT])
        made.add(Role.ACTION, name="edit", text=f"{'directory/' * 10}file_{n}.py", ok=True)
        lines = "\n".join(f"{'another/' * 10}file_{n}_{m}.py:1:def function_{m}" for m in range(6))
        made.add(Role.ACTION, name="grep", ok=True, text=lines[:STEP_TEXT])
    found = touched(made)
    assert found is not None
    assert len(found.to_json()) < 64 * KB
    assert (len(found.body["changed"]), len(found.body["seen"])) == (CHANGED, SEEN)
