"""What is archived comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EVIDENCE

pytest.importorskip("pyarrow", reason="the extra `archive` is not installed")
from hmx_pipeline.store.archive_format import ArchivedRecord, by_folder, honoured_by, read, tenant_folder, written

DAY_MS = 86_400_000
texts = st.text().filter(lambda text: text.isprintable()).map(str.encode)
rows = st.builds(
    lambda offset, tenant, value, headers, at: ArchivedRecord(
        TopicRecord(EVIDENCE, 3, offset, join_key(tenant, "s").encode(), value, headers), at
    ),
    st.integers(0, 2**62),
    st.sampled_from(["acme", "a/b", "Ünï", ".."]),
    texts,
    st.lists(st.tuples(st.text("abc-", min_size=1), st.binary())),
    st.integers(0, 4_000_000_000_000),
)


@given(st.lists(rows))
def test_what_is_written_is_read_again_byte_for_byte(given: list[ArchivedRecord]) -> None:
    file = written(given, "these")
    assert read(file, EVIDENCE, 3) == given
    assert honoured_by(file) == "these"
    assert written(given, "these") == file


@given(st.lists(rows))
def test_every_record_is_in_the_folder_of_its_tenant_and_day_and_in_no_other(given: list[ArchivedRecord]) -> None:
    folders = by_folder(given)
    assert sorted(map(repr, given)) == sorted(repr(row) for found in folders.values() for row in found)
    for folder, found in folders.items():
        assert len({row.at_ms // DAY_MS for row in found}) == 1
        tenants = {split_key(row.record.key.decode())[0] for row in found}
        assert set(map(tenant_folder, tenants)) == {folder.partition("/")[0]}


def test_a_tenant_of_any_length_has_a_folder_that_every_disk_takes() -> None:
    named = {tenant_folder("ü" * n) for n in range(1, 257)}
    assert len(named) == 256
    assert max(map(len, named)) < 255


def test_no_tenant_can_name_itself_into_the_folder_of_a_long_one() -> None:
    hashed = tenant_folder("ü" * 256)
    assert tenant_folder(hashed.removeprefix("tenant=")) != hashed


def test_a_record_of_any_time_has_a_day() -> None:
    record = TopicRecord(EVIDENCE, 0, 0, b"acme/s", b"{}", [])
    for at_ms, day in ((-1, "1970-01-01"), (2**62, "9999-12-31"), (1_773_457_200_000, "2026-03-14")):
        assert list(by_folder([ArchivedRecord(record, at_ms)])) == [f"tenant=acme/day={day}"]


def test_what_is_never_memory_is_not_archived() -> None:
    for value, headers in ((None, []), (b"\xff", []), (b"{}", [("hmx-kind", b"tick")])):
        assert not by_folder([ArchivedRecord(TopicRecord(EVIDENCE, 0, 0, b"acme/s", value, headers), 0)])


def test_no_altered_page_of_a_file_gives_other_rows() -> None:
    given = [ArchivedRecord(TopicRecord(EVIDENCE, 0, n, b"acme/s", b'{"said": "%d"}' % n, []), 0) for n in range(9)]
    file = written(given, "")
    footer = int.from_bytes(file[-8:-4], "little") + 8
    refused = 0
    for at in range(4, len(file) - footer):
        altered = file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :]
        try:
            assert read(altered, EVIDENCE, 0) == given
        except (OSError, ValueError):
            refused += 1
    assert refused > (len(file) - footer) / 2
