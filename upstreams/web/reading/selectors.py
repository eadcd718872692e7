"""CSS selectors whose matching time is linear in the elements of a page, never quadratic.

`cssselect` translates selectors to XPath, which examines all siblings of each element for `~`, `+` and `:nth-child`,
and each pair of elements when it joins two sets. Here, XPath only finds the elements of each compound, and these sets
are combined through parents, ancestors and siblings, so that each step of a selector visits each element once.

`Matching` counts these visits over all selectors of one task, because a caller may send many for one large page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from cssselect import HTMLTranslator, SelectorError, parse, parser
from cssselect.parser import parse_series
from lxml import etree

from upstreams.content.markup import Element
from upstreams.model.errors import PageTooCostly

LENGTH_MAX: Final = 500
"""The maximum number of characters of one selector."""
STEPS_MAX: Final = 30
"""The maximum number of compounds in one selector, including compounds in `:not()`, `:is()` and `:has()`."""
DEPTH_MAX: Final = 3
"""The maximum nesting depth of functions."""
WORK_MAX: Final = 2_000_000
"""The maximum number of element visits in one task. A visit takes about a microsecond."""
_XPATH_SHARE: Final = 8
"""The number of elements that XPath visits in the time that Python needs for one visit."""
_LETTERS_A_VISIT: Final = 200
_SIMPLE: Final = (parser.Class, parser.Hash, parser.Attrib)
_SIMPLE_PSEUDOS: Final = frozenset(
    ("empty", "link", "checked", "visited", "hover", "active", "focus", "target"),
)
_EXPENSIVE: Final = frozenset(("enabled", "disabled", "lang"))
"""Pseudo-classes that make XPath examine everything around an element."""
_EXPENSIVE_VISITS: Final = 30
_PLACES: Final = frozenset(
    ("first-child", "last-child", "only-child", "first-of-type", "last-of-type", "only-of-type"),
)
_NTH: Final = frozenset(("nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"))
_translator: Final = HTMLTranslator()
Elements = dict[Element, None]
"""Elements in document order. A dict is used because it also provides fast lookup."""


@dataclass(frozen=True, slots=True)
class Compound:
    """A compound selector: `find` selects elements, and `filters` keep some of them."""

    find: etree.XPath
    filters: tuple[Filter, ...]
    is_dear: bool = False


@dataclass(frozen=True, slots=True)
class Combined:
    """Elements of `right` that are related to an element of `left` by the combinator."""

    left: Tree
    combinator: str
    right: Compound


@dataclass(frozen=True, slots=True)
class Place:
    """`:nth-child(an+b)` and similar."""

    a: int
    b: int
    last: bool
    of_type: bool
    only: bool = False
    """Whether only an element without siblings has this place, regardless of `a` and `b`."""


@dataclass(frozen=True, slots=True)
class Among:
    """`:is()`, `:where()` or, negated, `:not()`."""

    trees: tuple[Tree, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Having:
    """`:has()`: combinators, each with the compound to search for."""

    parts: tuple[tuple[str, Compound], ...]


@dataclass(frozen=True, slots=True)
class Containing:
    """`:contains()`."""

    words: str


@dataclass(frozen=True, slots=True)
class Named:
    """`:root` and `:scope`."""

    name: str


Tree = Compound | Combined
Filter = Place | Among | Having | Containing | Named


@lru_cache(maxsize=256)
def compiled(css: str) -> tuple[Tree, ...]:
    """Return the trees of a selector list.

    Raises:
        ValueError: The text is not a selector, or exceeds a limit. The message gives the reason.
    """
    selectors = parsed(css)
    try:
        if any(one.pseudo_element for one in selectors):
            raise ValueError("pseudo-elements are not supported")
        compiler = _Compiler()
        return tuple(compiler.tree(one.parsed_tree, 0) for one in selectors)
    except (SelectorError, etree.XPathError, RecursionError) as exc:
        raise ValueError(str(exc) or "it is nested too deeply") from exc


def parsed(css: str) -> list[parser.Selector]:
    """Return the selectors of a list, to be matched by another program.

    Raises:
        ValueError: The text is not a selector list, or exceeds the maximum length of a selector.
    """
    if len(css) > LENGTH_MAX:
        raise ValueError(f"it has more than {LENGTH_MAX} characters")
    try:
        return parse(css)
    except (SelectorError, RecursionError) as exc:
        raise ValueError(str(exc) or "it is nested too deeply") from exc


def steps_of(css: str) -> int:
    """Return the number of steps in a selector that `compiled` accepts."""
    return sum(map(_steps, compiled(css)))


def _steps(tree: Tree) -> int:
    if isinstance(tree, Combined):
        return _steps(tree.left) + _steps(tree.right)
    inner = [one for filter_ in tree.filters if isinstance(filter_, Among) for one in filter_.trees]
    inner += [one for filter_ in tree.filters if isinstance(filter_, Having) for _, one in filter_.parts]
    return 1 + sum(map(_steps, inner))


class _Compiler:
    """Builds the trees of one selector, and counts its steps."""

    def __init__(self) -> None:
        self._steps = 0

    def tree(self, parsed: Any, depth: int) -> Tree:
        """Return the tree of a selector."""
        if isinstance(parsed, parser.CombinedSelector):
            left = self.tree(parsed.selector, depth)
            return Combined(left, parsed.combinator, self._compound(parsed.subselector, depth))
        return self._compound(parsed, depth)

    def _compound(self, parsed: Any, depth: int) -> Compound:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise ValueError(f"it has more than {STEPS_MAX} steps")
        is_dear, simple = False, list[Any]()
        filters: list[Filter] = []
        while not isinstance(parsed, parser.Element):
            name = getattr(parsed, "ident", getattr(parsed, "name", ""))
            is_dear = is_dear or name in _EXPENSIVE
            if isinstance(parsed, _SIMPLE) or name in _SIMPLE_PSEUDOS or name in _EXPENSIVE:
                simple.append(parsed)
            else:
                filters.append(self._filter(parsed, depth))
            parsed = parsed.selector
        for one in reversed(simple):
            parsed, inner = copy(one), parsed
            parsed.selector = inner
        find = etree.XPath(f"descendant-or-self::{_translator.xpath(parsed)}")
        return Compound(find, tuple(filters[::-1]), is_dear)

    def _filter(self, parsed: Any, depth: int) -> Filter:
        if isinstance(parsed, parser.Pseudo):
            return _of_pseudo(parsed.ident)
        if isinstance(parsed, parser.Function):
            return _of_function(parsed)
        if depth >= DEPTH_MAX:
            raise ValueError(f"it nests functions more than {DEPTH_MAX} levels deep")
        if isinstance(parsed, parser.Negation):
            return Among((self.tree(parsed.subselector, depth + 1),), negated=True)
        if isinstance(parsed, parser.Matching | parser.SpecificityAdjustment):
            return Among(tuple(self.tree(one, depth + 1) for one in parsed.selector_list), negated=False)
        assert isinstance(parsed, parser.Relation), "the parser returns no other kind"
        return Having(tuple(self._part(*one, depth) for one in parsed.arguments))

    def _part(self, combinator: Any, selector: Any, depth: int) -> tuple[str, Compound]:
        wanted = selector.parsed_tree
        if isinstance(wanted, parser.CombinedSelector):
            raise ValueError(":has() supports no combinators between elements")  # noqa: TRY004 - the error is in the caller's text
        return combinator.value, self._compound(wanted, depth + 1)


def _of_pseudo(name: str) -> Filter:
    if name in ("root", "scope"):
        return Named(name)
    if name not in _PLACES:
        raise ValueError(f":{name} is not supported")
    if name.startswith("only"):
        return Place(0, 1, last=False, of_type=name.endswith("type"), only=True)
    return Place(0, 1, last=name.startswith("last"), of_type=name.endswith("type"))


def _of_function(parsed: Any) -> Filter:
    name = parsed.name
    if name == "contains" and parsed.argument_types() in (["STRING"], ["IDENT"]):
        return Containing(parsed.arguments[0].value)
    if name not in _NTH:
        raise ValueError(f":{name}() is not supported in this form")
    try:
        a, b = parse_series(parsed.arguments)
    except ValueError as exc:
        raise ValueError(f":{name}() needs a number, odd, even or a series such as 2n+1") from exc
    return Place(a, b, last="last" in name, of_type=name.endswith("type"))


class Matching:
    """The matching of the selectors of one task.

    Its counts are valid only while the page does not change. Call `forget` after a change.
    """

    def __init__(self) -> None:
        self._work_left = WORK_MAX
        self._sizes: dict[Element, int] = {}
        self._places: dict[Element, tuple[dict[Element, int], dict[Element, int], int, Counter[Any]]] = {}

    def forget(self) -> None:
        """Clear the counts of a page that has changed."""
        self._sizes.clear()
        self._places.clear()

    def found(self, root: Element, css: str) -> list[Element]:
        """Return the elements at or below `root` that a selector list matches, in document order.

        Raises:
            PageTooCostly: The selectors of this task have visited too many elements.
        """
        trees = compiled(css)
        if len(trees) == 1:
            return list(self._tree(root, trees[0]))
        chosen = {one for tree in trees for one in self._tree(root, tree)}
        self._spend(self._size(root))
        return [one for one in root.iter(etree.Element) if one in chosen] if chosen else []

    def spend_on(self, text: str) -> None:
        """Count the cost of reading a text as visits."""
        self._spend(1 + len(text) // _LETTERS_A_VISIT)

    def _spend(self, visits: int) -> None:
        self._work_left -= visits
        if self._work_left < 0:
            raise PageTooCostly("The selectors take too much work on a page of this size.")

    def _size(self, root: Element) -> int:
        if root not in self._sizes:
            self._sizes[root] = size = int(_COUNT(root))
            self._spend(1 + size // _XPATH_SHARE)
        return self._sizes[root]

    def _tree(self, root: Element, tree: Tree) -> Elements:
        if isinstance(tree, Compound):
            return self._compound(root, tree)
        right = self._compound(root, tree.right)
        left = self._tree(root, tree.left) if right else {}
        if not left:
            return {}
        self._spend(len(right))
        if tree.combinator == ">":
            return {one: None for one in right if one.getparent() in left}
        if tree.combinator == "+":
            return {one: None for one in right if _previous(one) in left}
        step = _previous if tree.combinator == "~" else _parent
        return dict.fromkeys(self._leading(right, left, step, root))

    def _leading(
        self, elements: Elements, wanted: Elements, step: Callable[[Element], Element | None], root: Element
    ) -> Iterable[Element]:
        """Yield the elements whose steps lead to a wanted element. Each element is visited once per step."""
        leads: dict[Element, bool] = {}
        for one in elements:
            path, at = [one], None if one is root else step(one)
            known = False
            while at is not None:
                if at in wanted:
                    known = True
                    break
                if at in leads:
                    known = leads[at]
                    break
                path.append(at)
                at = None if at is root else step(at)
            self._spend(len(path))
            leads.update(dict.fromkeys(path, known))
            if known:
                yield one

    def _compound(self, root: Element, compound: Compound) -> Elements:
        size = self._size(root)
        self._spend(size * _EXPENSIVE_VISITS if compound.is_dear else 1 + size // _XPATH_SHARE)
        found: Elements = dict.fromkeys(compound.find(root))
        for filter_ in compound.filters:
            if not found:
                break
            self._spend(len(found))
            found = self._filtered(root, found, filter_)
        return found

    def _filtered(self, root: Element, found: Elements, filter_: Filter) -> Elements:
        if isinstance(filter_, Place):
            return {one: None for one in found if self._has_place(one, filter_)}
        if isinstance(filter_, Among):
            chosen = {one for tree in filter_.trees for one in self._tree(root, tree)}
            return {one: None for one in found if (one in chosen) != filter_.negated}
        if isinstance(filter_, Having):
            having = {one for combinator, wanted in filter_.parts for one in self._having(root, combinator, wanted)}
            return {one: None for one in found if one in having}
        if isinstance(filter_, Named):
            return {one: None for one in found if (one is root if filter_.name == "scope" else _parent(one) is None)}
        return {one: None for one in found if self._contains(one, filter_.words)}

    def _contains(self, element: Element, words: str) -> bool:
        self._spend(int(_COUNT(element)) // _XPATH_SHARE)
        text = "".join(element.itertext())
        self.spend_on(text)
        return words in text

    def _having(self, root: Element, combinator: str, wanted: Compound) -> Iterable[Element]:
        """Return the elements that have a wanted element below them, among their children, or after them."""
        step = _parent if combinator in (" ", ">") else _previous
        once = combinator in (">", "+")
        seen: Elements = {}
        for one in self._compound(root, wanted):
            at = None if one is root else step(one)
            while at is not None and at not in seen:
                seen[at] = None
                at = None if once or at is root else step(at)
        self._spend(len(seen))
        return seen

    def _has_place(self, element: Element, place: Place) -> bool:
        """Return whether an element has this place among its siblings. All siblings are counted in one pass."""
        parent = element.getparent()
        if parent is None:
            at = count = 1
        else:
            if parent not in self._places:
                self._places[parent] = _counted(parent)
                self._spend(len(self._places[parent][0]))
            by_all, by_type, all_, types = self._places[parent]
            at = (by_type if place.of_type else by_all)[element]
            count = types[element.tag] if place.of_type else all_
        if place.only:
            return count == 1
        nth = (count + 1 - at if place.last else at) - place.b
        return nth == 0 if place.a == 0 else nth % place.a == 0 and nth // place.a >= 0


_COUNT: Final = etree.XPath("count(descendant-or-self::*)")


def _counted(parent: Element) -> tuple[dict[Element, int], dict[Element, int], int, Counter[Any]]:
    """Return the places of an element's children, overall and by type, and the total numbers."""
    by_all: dict[Element, int] = {}
    by_type: dict[Element, int] = {}
    types: Counter[Any] = Counter()
    for number, child in enumerate(parent.iterchildren(etree.Element), 1):
        types[child.tag] += 1
        by_all[child], by_type[child] = number, types[child.tag]
    return by_all, by_type, len(by_all), types


def _parent(element: Element) -> Element | None:
    return element.getparent()


def _previous(element: Element) -> Element | None:
    previous = element.getprevious()
    while previous is not None and not isinstance(previous.tag, str):  # a comment
        previous = previous.getprevious()
    return previous
