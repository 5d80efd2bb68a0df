"""Steps of a computation, counted and not timed: for tests that hold how they grow with the input.

`install` has every module of the pipeline that is imported from then on count what it does: a step for each call,
operator, iteration and element; where text, bytes or a container is handed to what is written in C, a step for each of
its items; and where a regular expression is searched for, each step of a backtracking matcher that goes the engine's
way. Only for a process of its own (tests.support.growth).
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Iterator
from operator import itemgetter
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

SIZED = (str, bytes, list, tuple, dict, set, frozenset)
SHORT = frozenset(
    "append pop popleft get add discard setdefault items values keys popitem extend group start end span".split()  # noqa: SIM905
)
"""Methods that do not look at all that their object holds."""
CHEAP = frozenset(
    (
        len,
        isinstance,
        issubclass,
        type,
        iter,
        next,
        range,
        enumerate,
        zip,
        reversed,
        getattr,
        hasattr,
        id,
        hash,
        callable,
    )
)
Matcher = Callable[[int, dict[Any, Any]], int]


class Steps:
    """`count` goes up."""

    def __init__(self) -> None:
        self.count = 0

    def size(self, value: Any) -> int:
        return len(value) if type(value) in SIZED else 0

    def call(self, function: Any, /, *arguments: Any, **named: Any) -> Any:
        self.count += 1
        code = getattr(function, "__code__", None) or getattr(function, "__func__", None)
        if code is not None or function in CHEAP or isinstance(getattr(function, "__self__", None), Counted):
            return function(*arguments, **named)
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if name == "find" and type(owner) in (str, bytes):
            return self._find(owner, *arguments)
        if isinstance(function, itemgetter):  # looks at so many places of a table, however large that is
            return self.made(function(*arguments))
        if type(owner) in SIZED and name not in SHORT:
            self.count += len(owner)
        if not isinstance(function, type) or function.__module__ == "builtins":
            self.count += sum(map(self.size, arguments)) + sum(map(self.size, named.values()))
        result = function(*arguments, **named)
        if type(result) in (str, bytes, list):
            self.count += len(result)
        return result

    def _find(self, text: Any, part: Any, start: int = 0, stop: int = sys.maxsize) -> int:
        """What lies between the start and what is found, which callers may look beyond, and that itself."""
        found = text.find(part, start, stop)
        self.count += max((min(stop, len(text)) if found < 0 else found) - start, 0) + len(part)
        return int(found)

    def made(self, value: Any) -> Any:
        """What an operator, a slice or a formatted text has made."""
        self.count += 1 + self.size(value)
        return value

    def longer(self, value: Any) -> None:
        """What was added to: a list grows in place, a text is written anew."""
        self.count += 1 + (len(value) if type(value) in (str, bytes, tuple) else 0)

    def looked(self, value: Any) -> Any:
        """What a comparison looks at: of texts all, of tables a place."""
        self.count += 1 + (len(value) if type(value) in (str, bytes, list, tuple) else 0)
        return value

    def one(self, value: Any) -> Any:
        self.count += 1
        return value


STEPS = Steps()


class Counting(ast.NodeTransformer):
    """Calls of `__counted__` around what takes steps."""

    def _around(self, name: str, *arguments: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(ast.Name("__counted__", ast.Load()), name, ast.Load()), list(arguments), [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "TypeVar", "ParamSpec"):
            return node
        found = self._around("call", node.func, *node.args)
        found.keywords = node.keywords
        return found

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._around("made", node)

    visit_JoinedStr = visit_BinOp  # type: ignore[assignment]  # noqa: N815

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        sliced = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return self._around("made", node) if sliced else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.comparators[-1] = self._around("looked", node.comparators[-1])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        return [node, ast.Expr(self._around("longer", ast.Name(node.target.id, ast.Load())))]

    def _loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(self._around("one", ast.Constant(None))))
        return node  # type: ignore[no-any-return]

    visit_For = visit_While = _loop  # noqa: N815

    def _element(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        for each in node.generators:
            each.ifs.insert(0, ast.UnaryOp(ast.Not(), self._around("one", ast.Constant(None))))
        return node  # type: ignore[no-any-return]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _element  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _function(self, node: Any) -> ast.AST:
        node.body = [one for each in node.body for one in _listed(self.visit(each))]
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [self.visit(each) if isinstance(each, ast.FunctionDef) else each for each in node.body]
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        for case in node.cases:
            case.body = [one for each in case.body for one in _listed(self.visit(each))]
        return node


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        tree = ast.fix_missing_locations(Counting().visit(ast.parse(data)))
        return compile(tree, path, "exec", dont_inherit=True)

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__counted__"] = STEPS
        super().exec_module(module)


PACKAGE = "hmx_pipeline."


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if not fullname.startswith(PACKAGE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(fullname, spec.loader.path)
        return spec


class Counted:
    """A compiled pattern that counts its steps; what it finds is what the engine finds."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._pattern = pattern
        self._walk = Backtracking(pattern) if isinstance(pattern.pattern, str) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def _count(self, text: Any, pos: int, end: int | None, *, anchored: bool, full: bool = False) -> None:
        if self._walk is not None and isinstance(text, str):
            STEPS.count += self._walk.steps(
                text, pos, len(text) if end is None else min(end, len(text)), anchored=anchored, full=full
            )

    def match(self, text: Any, pos: int = 0, *end: int) -> Any:
        self._count(text, pos, *(end or (None,)), anchored=True)
        return self._pattern.match(text, pos, *end)

    def fullmatch(self, text: Any, pos: int = 0, *end: int) -> Any:
        self._count(text, pos, *(end or (None,)), anchored=True, full=True)
        return self._pattern.fullmatch(text, pos, *end)

    def search(self, text: Any, pos: int = 0, *end: int) -> Any:
        self._count(text, pos, *(end or (None,)), anchored=False)
        return self._pattern.search(text, pos, *end)

    def finditer(self, text: Any, *where: int) -> Iterator[Any]:
        last = where[0] if where else 0
        for found in self._pattern.finditer(text, *where):
            self._count(text, last, None, anchored=False)
            last = found.end() + (not found[0])
            yield found
        if last <= len(text):
            self._count(text, last, None, anchored=False)

    def findall(self, text: Any) -> Any:
        return [
            found[0] if self._pattern.groups == 0 else found[1] if self._pattern.groups == 1 else found.groups("")
            for found in self.finditer(text)
        ]

    def sub(self, replacement: Any, text: Any, count: int = 0) -> Any:
        for _ in self.finditer(text):
            pass
        return self._pattern.sub(replacement, text, count)

    def split(self, text: Any, maxsplit: int = 0) -> Any:
        for _ in self.finditer(text):
            pass
        return self._pattern.split(text, maxsplit)


class Backtracking:
    """The steps that the standard library's engine takes, without its shortcuts, which save no more than a factor."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        tree = _parser.parse(pattern.pattern, pattern.flags)
        self._state, self._taken, self._text, self._end, self._full = tree.state, 0, "", 0, False
        self.ended = -1
        """Where the last match ends."""
        self._start = self._all(tree, tree.state.flags, self._accept)

    def steps(self, text: str, pos: int, end: int, *, anchored: bool, full: bool) -> int:
        self._text, self._end, self._full, self._taken = text, end, full, 0
        for at in range(pos, pos + 1 if anchored else end + 1):
            self._taken += 1
            self.ended = self._start(at, {})
            if self.ended >= 0:
                break
        return self._taken

    def _accept(self, at: int, _: dict[Any, Any]) -> int:
        return at if not self._full or at == self._end else -1

    def _inner(self, at: int, _: dict[Any, Any]) -> int:
        return at

    def _all(self, items: Any, flags: int, following: Matcher) -> Matcher:
        for op, value in reversed(list(items)):
            following = self._one(op, value, flags, following)
        return following

    def _holds(self, op: Any, value: Any, flags: int) -> Callable[[str], bool]:
        """Of a single character, by the engine itself."""
        item = _parser.SubPattern(self._state, [(op, value)])
        match, known = _compiler.compile(item, flags).match, dict[str, bool]()

        def holds(character: str) -> bool:
            if character not in known:
                known[character] = match(character) is not None
            return known[character]

        return holds

    def _one(self, op: Any, value: Any, flags: int, following: Matcher) -> Matcher:
        c = _constants
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self._character(self._holds(op, value, flags), following)
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            low, high, body = value
            if len(body) == 1 and body[0][0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
                return self._run(self._holds(*body[0], flags), low, high, op, following)
            if op is c.POSSESSIVE_REPEAT:
                return self._atomic(self._repeat(body, low, high, c.MAX_REPEAT, flags, self._inner), following)
            return self._repeat(body, low, high, op, flags, following)
        if op is c.BRANCH:
            return self._branch([self._all(one, flags, following) for one in value[1]])
        if op is c.SUBPATTERN:
            group, add, remove, body = value
            return self._group(group, body, (flags | add) & ~remove, following)
        if op is c.ATOMIC_GROUP:
            return self._atomic(self._all(value, flags, self._inner), following)
        if op in (c.ASSERT, c.ASSERT_NOT):
            direction, body = value
            width = body.getwidth()[0] if direction < 0 else 0
            return self._look(self._all(body, flags, self._inner), width, op is c.ASSERT, following)
        if op is c.GROUPREF:
            return self._again(value, following)
        if op is c.GROUPREF_EXISTS:
            group, yes, no = value
            one, other = self._all(yes, flags, following), self._all(no or [], flags, following)
            return lambda at, groups: (one if group in groups else other)(at, groups)
        assert op is c.AT, op
        match = _compiler.compile(_parser.SubPattern(self._state, [(op, value)]), flags).match
        return lambda at, groups: following(at, groups) if match(self._text, at, self._end) else -1

    def _character(self, holds: Callable[[str], bool], following: Matcher) -> Matcher:
        def matcher(at: int, groups: dict[Any, Any]) -> int:
            self._taken += 1
            return following(at + 1, groups) if at < self._end and holds(self._text[at]) else -1

        return matcher

    def _run(self, holds: Callable[[str], bool], low: int, high: Any, op: Any, following: Matcher) -> Matcher:
        greedy, possessive = op is _constants.MAX_REPEAT, op is _constants.POSSESSIVE_REPEAT

        def matcher(at: int, groups: dict[Any, Any]) -> int:
            text, most = self._text, min(self._end - at, int(high))
            if not (greedy or possessive):
                taken = 0
                while True:
                    self._taken += 1
                    if taken >= low and (end := following(at + taken, groups)) >= 0:
                        return end
                    if taken >= most or not holds(text[at + taken]):
                        return -1
                    taken += 1
            taken = 0
            while taken < most and holds(text[at + taken]):
                taken += 1
            self._taken += taken + 1
            if possessive:
                return following(at + taken, groups) if taken >= low else -1
            while taken >= low:
                self._taken += 1
                if (end := following(at + taken, groups)) >= 0:
                    return end
                taken -= 1
            return -1

        return matcher

    def _repeat(self, body: Any, low: int, high: Any, op: Any, flags: int, following: Matcher) -> Matcher:
        stack: list[tuple[int, int]] = []
        greedy = op is _constants.MAX_REPEAT

        def tail(at: int, groups: dict[Any, Any]) -> int:
            kept = stack.pop()
            end = following(at, groups)
            stack.append(kept)
            return end

        def after(at: int, groups: dict[Any, Any]) -> int:
            count, began = stack[-1]
            if at == began and count >= low:
                return tail(at, groups)
            stack[-1] = (count + 1, at)
            end = turn(at, groups)
            stack[-1] = (count, began)
            return end

        once = self._all(body, flags, after)

        def turn(at: int, groups: dict[Any, Any]) -> int:
            self._taken += 1
            count, began = stack[-1]
            if not greedy and count >= low and (end := tail(at, groups)) >= 0:
                return end
            if count < high:
                stack[-1] = (count, at)
                end = once(at, groups)
                stack[-1] = (count, began)
                if end >= 0:
                    return end
            return tail(at, groups) if greedy and count >= low else -1

        def matcher(at: int, groups: dict[Any, Any]) -> int:
            stack.append((0, -1))
            end = turn(at, groups)
            stack.pop()
            return end

        return matcher

    def _branch(self, ways: list[Matcher]) -> Matcher:
        def matcher(at: int, groups: dict[Any, Any]) -> int:
            for way in ways:
                self._taken += 1
                if (end := way(at, groups)) >= 0:
                    return end
            return -1

        return matcher

    def _group(self, group: Any, body: Any, flags: int, following: Matcher) -> Matcher:
        if group is None:
            return self._all(body, flags, following)

        def close(at: int, groups: dict[Any, Any]) -> int:
            return following(at, {**groups, group: (groups[-group], at)})

        inside = self._all(body, flags, close)
        return lambda at, groups: inside(at, {**groups, -group: at})

    def _atomic(self, inside: Matcher, following: Matcher) -> Matcher:
        def matcher(at: int, groups: dict[Any, Any]) -> int:
            end = inside(at, groups)
            return following(end, groups) if end >= 0 else -1

        return matcher

    def _look(self, inside: Matcher, width: int, wanted: bool, following: Matcher) -> Matcher:
        def matcher(at: int, groups: dict[Any, Any]) -> int:
            found = at >= width and inside(at - width, groups) >= 0
            return following(at, groups) if found is wanted else -1

        return matcher

    def _again(self, group: int, following: Matcher) -> Matcher:
        def matcher(at: int, groups: dict[Any, Any]) -> int:
            if group not in groups:
                return -1
            start, end = groups[group]
            self._taken += end - start + 1
            same = self._text[start:end].casefold() == self._text[at : at + end - start].casefold()
            return following(at + end - start, groups) if same else -1

        return matcher


def install() -> Steps:
    """From now on, for what is imported from now on."""
    sys.setrecursionlimit(10**6)
    original = re.compile

    def counted(pattern: Any, flags: Any = 0) -> Any:
        return Counted(original(pattern, flags))

    sys.meta_path.insert(0, Finder())
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]
    re.compile = counted  # type: ignore[assignment]
    builtins.__dict__.setdefault("__counted__", STEPS)
    return STEPS
