"""Path convertor `{event_id:id}`: ids may contain any characters, also slashes and line breaks (HMX-E §5).

Importing the module registers it; the framework's path convertor stops at a line break.
"""

from starlette.convertors import Convertor, register_url_convertor


class IdConvertor(Convertor[str]):
    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", IdConvertor())
