"""What the segmenter remembers of an open segment."""

from typing import Final

import msgspec

NOTHING: Final = -1


class SegmentHead(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What deciding about the next step needs; of fixed size."""

    last_at: int
    """Newest event time so far: event times may run backwards."""
    events: int = 1
    user_messages: int = 0
    goal: tuple[int, ...] = ()
    """The first user messages, by their indexes."""
    said: int = NOTHING
    """The agent's last message, if the user has not answered it yet."""
    wish: int = NOTHING
    """The user's last message, if nothing has been done since."""
    content: bool = False
    """Feedback was positive, and nothing has been done since."""
    ended: bool = False
    """A state change said that the work is over."""
