"""Ids in paths, `{event_id:id}`: any characters, slashes and line breaks too, as ids are opaque (HMX-E §5).

Importing the module makes the convertor known; the framework's own for a path stops at a line break.
"""

from starlette.convertors import Convertor, register_url_convertor


class IdConvertor(Convertor[str]):
    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", IdConvertor())
