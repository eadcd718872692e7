"""Every path of `track` leads to a number of the recipe's responses, or is rejected with a suggestion."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.errors import TrackInvalid
from scheduler.monitors.metrics.paths import numbers_in
from scheduler.monitors.metrics.shapes import shape_of
from scheduler.monitors.metrics.tracking import Track, read_track, rows_asked, stored_track
from upstreams.model import archetypes
from upstreams.model.archetypes import Archetype

POSTS, AUTHOR = archetypes.POST_LIST, archetypes.AUTHOR
FIXED = [found for found in vars(archetypes).values() if isinstance(found, Archetype) and found.key]
VIEWS = "items[].post.engagement.views"


def refusal(sent, archetype=POSTS) -> TrackInvalid:
    with pytest.raises(TrackInvalid) as refused:
        read_track(sent, archetype)
    assert refused.value.next_step.endswith(".")
    assert len(str(refused.value)) < 600
    return refused.value


@pytest.mark.parametrize(
    ("archetype", "path", "meant"),
    [
        (POSTS, "views", VIEWS),
        (POSTS, "engagement.views", VIEWS),
        (POSTS, "post.engagement.views", VIEWS),
        (POSTS, "post.views", VIEWS),
        (POSTS, "items[].engagement.views", VIEWS),
        (POSTS, "items[].views", VIEWS),
        (POSTS, "items.post.engagement.views", VIEWS),
        (POSTS, "item[].post.engagement.views", VIEWS),
        (POSTS, "items[0].post.engagement.views", VIEWS),
        (POSTS, "items[*].post.engagement.views", VIEWS),
        (POSTS, "items/0/post/engagement/views", VIEWS),
        (POSTS, f"data.{VIEWS}", VIEWS),
        (POSTS, f"$.{VIEWS}", VIEWS),
        (POSTS, "data.total", "total"),
        (POSTS, "items[].total", "total"),
        (POSTS, "engagement_rate", "items[].computed.engagement_rate"),
        (POSTS, "post.stats.views", VIEWS),
        (AUTHOR, "followers", "author.followers"),
        (AUTHOR, "items[].author.followers", "author.followers"),
        (AUTHOR, "author.computed.estimated_reach", "computed.estimated_reach"),
        (archetypes.COMMENT_LIST, "likes", "items[].comment.engagement.likes"),
        (archetypes.COMMENT_LIST, "replies", "items[].comment.engagement.replies"),
        (archetypes.REPOSITORY_LIST, "stars", "items[].repository.stars"),
    ],
)
def test_path_at_the_wrong_level_gets_the_right_path_suggested(archetype, path, meant):
    refused = refusal({"metrics": [path]}, archetype)
    assert refused.param == "track.metrics[0]"
    assert refused.problem == f"names {path!r} at the wrong level; its path is {meant}"
    assert refused.did_you_mean == meant
    assert refused.next_step == f"Send {meant}."


@pytest.mark.parametrize(
    ("archetype", "path", "meant"),
    [
        (POSTS, "items[].post.engagement.veiws", VIEWS),
        (POSTS, "items[].post.engagement.view", VIEWS),
        (POSTS, "items[].post.enagement.views", VIEWS),
        (POSTS, "veiws", VIEWS),
        (POSTS, "totl", "total"),
        (POSTS, "Total", "total"),
        (POSTS, "items[].comment.engagement.likes", "items[].post.engagement.likes"),
        (AUTHOR, "author.folowers", "author.followers"),
        (AUTHOR, "author.Followers", "author.followers"),
    ],
)
def test_misspelled_path_gets_a_did_you_mean(archetype, path, meant):
    refused = refusal({"metrics": [path]}, archetype)
    assert refused.problem == f"{path!r} is not a number in this recipe's responses; did you mean {meant}?"
    assert refused.did_you_mean == meant


@pytest.mark.parametrize(
    ("archetype", "path", "told"),
    [
        (POSTS, "items[].post.id", "'items[].post.id' is text"),
        (POSTS, "items[].post.content.text", "'items[].post.content.text' is text"),
        (POSTS, "items[].post.author.verified", "'items[].post.author.verified' is a boolean"),
        (POSTS, "items[].computed.language", "'items[].computed.language' is text"),
        (POSTS, "items[].post.content.media_urls", "'items[].post.content.media_urls' is an array"),
        (POSTS, "items[].post.flags", "'items[].post.flags' is an object"),
        (POSTS, "items", "'items' is an array"),
        (POSTS, "verified", "'items[].post.author.verified' is a boolean"),
        (POSTS, "post.published_at", "'items[].post.published_at' is text"),
        (AUTHOR, "author.verified", "'author.verified' is a boolean"),
        (AUTHOR, "author.private", "'author.private' is a boolean"),
        (AUTHOR, "bio", "'author.bio' is text"),
        (archetypes.COMMENT_LIST, "items[].comment.replies", "'items[].comment.replies' is an array"),
    ],
)
def test_error_names_the_kind_of_a_non_numeric_value(archetype, path, told):
    refused = refusal({"metrics": [path]}, archetype)
    assert refused.problem == f"must lead to a number; {told}"
    assert refused.did_you_mean is None


def test_error_about_an_object_lists_its_numbers():
    refused = refusal({"metrics": ["items[].post.engagement"]})
    assert refused.did_you_mean == VIEWS
    assert "items[].post.engagement.saves" in refused.next_step


@pytest.mark.parametrize("path", ["zzz", ".", "items[].", "[]", "..", "weather"])
def test_error_about_an_unknown_path_lists_the_numbers(path):
    refused = refusal({"metrics": [path]}, archetypes.COMMENT_LIST)
    assert refused.problem == f"{path!r} is not a number in this recipe's responses"
    there_is = "items[].comment.engagement.likes, items[].comment.engagement.replies, total"
    assert refused.next_step == f"This recipe's numbers are {there_is}."


@pytest.mark.parametrize("archetype", FIXED, ids=lambda archetype: archetype.name)
def test_every_number_of_a_shape_can_be_tracked_and_no_other_path(archetype):
    shape = shape_of(archetype)
    known_by = "id" if f"items[].{archetype.key}.id" in shape.kinds else "url"  # as in the archetypes of web pages
    row_key = {} if shape.row_key or not shape.is_list else {"row_key": f"{archetype.key}.{known_by}"}
    for path in numbers_in(shape):
        assert read_track({"metrics": [path], **row_key}, archetype).warnings == []
    for path in shape.kinds.keys() - set(numbers_in(shape)):
        refusal({"metrics": [path], **row_key}, archetype)


@given(st.sampled_from(FIXED), st.text(max_size=60))
def test_text_that_is_not_a_number_path_is_rejected(archetype, path):
    shape = shape_of(archetype)
    assume(path not in set(numbers_in(shape)) and not shape.is_open_at(path))
    refusal({"metrics": [path]}, archetype)


@given(st.sampled_from(FIXED), st.data())
def test_path_with_a_missing_letter_is_suggested(archetype, data):
    numbers = list(numbers_in(shape_of(archetype)))
    assume(numbers)
    path = data.draw(st.sampled_from(numbers))
    place = data.draw(st.integers(path.rfind(".") + 1, len(path) - 1))
    assert refusal({"metrics": [path[:place] + path[place + 1 :]]}, archetype).did_you_mean == path


@pytest.mark.parametrize(
    ("archetype", "metrics", "row_key"),
    [
        (POSTS, [VIEWS, "total"], "post.id"),
        (archetypes.COMMENT_LIST, ["items[].comment.engagement.likes"], "comment.id"),
        (archetypes.AUTHOR_LIST, ["items[].author.followers"], "author.id"),
        (POSTS, ["total"], None),
        (AUTHOR, ["author.followers"], None),
        (archetypes.RELEASE_LIST, ["total"], None),
    ],
)
def test_posts_comments_and_authors_have_a_default_row_key(archetype, metrics, row_key):
    assert read_track({"metrics": metrics}, archetype) == (Track(tuple(metrics), row_key, 100), [])


@pytest.mark.parametrize(
    ("archetype", "sent", "problem", "meant"),
    [
        (archetypes.REPOSITORY_LIST, None, "must be set", None),
        (POSTS, "items[].post.id", "relative to each row", "post.id"),
        (POSTS, "id", "'id' is not in a row", "post.id"),
        (POSTS, "post.idd", "'post.idd' is not in a row", "post.id"),
        (POSTS, "post.flags.pinned", "'post.flags.pinned' is a boolean", None),
        (POSTS, "post", "'post' is an object", None),
        (POSTS, "", "must be a path inside a row, not ''", None),
        (POSTS, 5, "must be a path inside a row, not a number", None),
        (AUTHOR, "author.id", "returns no rows", None),
    ],
)
def test_invalid_row_key_is_rejected(archetype, sent, problem, meant):
    path = "author.followers" if archetype is AUTHOR else "items[].repository.stars"
    refused = refusal({"metrics": [VIEWS if archetype is POSTS else path], "row_key": sent}, archetype)
    assert refused.param == "track.row_key"
    assert problem in refused.problem
    assert refused.did_you_mean == meant


def test_repository_row_key_can_be_any_text_or_number():
    metrics = ["items[].repository.stars"]
    for key in ("repository.id", "repository.full_name", "repository.size_kb"):
        read = read_track({"metrics": metrics, "row_key": key}, archetypes.REPOSITORY_LIST)
        assert read == (Track(tuple(metrics), key), [])


def test_paths_without_a_known_shape_get_an_unchecked_warning():
    sent = {"metrics": ["repository.stars", "items[].n", "languages.Jupyter Notebook"], "row_key": "id", "max_rows": 7}
    read = read_track(sent, None)
    assert read.track == Track(tuple(sent["metrics"]), "id", 7, is_named=True)
    assert [warning.split(" could not be checked")[0] for warning in read.warnings] == [*sent["metrics"], "id"]


@pytest.mark.parametrize(
    "path", ["a..b", ".a", "a.", "items[0].n", "a[].b", "items[].", "items[]", "a\nb", "[]", "x" * 201]
)
def test_path_syntax_is_checked_without_a_known_shape(path):
    assert refusal({"metrics": [path]}, None).param == "track.metrics[0]"


def test_composite_paths_can_be_tracked():
    assert read_track({"metrics": ["repository.stars"]}, archetypes.DOSSIER).warnings == []
    assert refusal({"metrics": ["repository.starz"]}, archetypes.DOSSIER).did_you_mean == "repository.stars"
    assert "is an array" in refusal({"metrics": ["releases"]}, archetypes.DOSSIER).problem


def test_unfilled_fields_and_computed_ones_are_rejected():
    never = frozenset({"engagement.views", "total"})
    for path in (VIEWS, "items[].computed.engagement_rate", "items[].computed.estimated_reach", "total"):
        with pytest.raises(TrackInvalid) as refused:
            read_track({"metrics": [path]}, POSTS, never)
        assert "is never filled by this recipe's platform" in refused.value.problem
    assert read_track({"metrics": ["items[].post.engagement.likes"]}, POSTS, never).warnings == []


def test_paths_inside_open_fields_get_an_unchecked_warning():
    read = read_track({"metrics": ["items[].post.ext.score", VIEWS]}, POSTS)
    assert [warning.split()[0] for warning in read.warnings] == ["items[].post.ext.score"]


@pytest.mark.parametrize(
    ("sent", "param", "problem", "meant"),
    [
        (None, "track", "must be an object, not null", None),
        ([VIEWS], "track", "must be an object, not an array", None),
        ({}, "track.metrics", "must be an array, not null", None),
        ({"metrics": VIEWS}, "track.metrics", "must be an array, not text", None),
        ({"metrics": []}, "track.metrics", "must contain 1 to 20 paths, not 0", None),
        ({"metrics": [f"n{n}" for n in range(21)]}, "track.metrics", "must contain 1 to 20 paths, not 21", None),
        ({"metrics": [VIEWS, 5]}, "track.metrics[1]", "must be text, not a number", None),
        ({"metrics": ["total", True]}, "track.metrics[1]", "must be text, not a boolean", None),
        ({"metrics": [""]}, "track.metrics[0]", "must have 1 to 200 characters", None),
        ({"metrics": ["x" * 201]}, "track.metrics[0]", "must have 1 to 200 characters", None),
        ({"metrics": ["total", "total"]}, "track.metrics[1]", "repeats 'total'", None),
        ({"metrics": ["total"], "max_row": 5}, "track.max_row", "is an unknown field", "max_rows"),
        ({"metrics": ["total"], "max_rows": 0}, "track.max_rows", "from 1 to 200", None),
        ({"metrics": ["total"], "max_rows": 201}, "track.max_rows", "from 1 to 200", None),
        ({"metrics": ["total"], "max_rows": True}, "track.max_rows", "from 1 to 200", None),
        ({"metrics": ["total"], "max_rows": "5"}, "track.max_rows", "from 1 to 200", None),
        ({"metrics": ["total"], "max_rows": 5.0}, "track.max_rows", "from 1 to 200", None),
    ],
)
def test_invalid_track_is_rejected(sent, param, problem, meant):
    refused = refusal(sent)
    assert (refused.param, refused.did_you_mean) == (param, meant)
    assert problem in refused.problem


def test_track_round_trips():
    for rows in (1, 200):
        track = read_track({"metrics": ["total", VIEWS], "row_key": "post.url", "max_rows": rows}, POSTS).track
        assert stored_track(orjson.loads(track.stored())) == track
        assert (track.max_rows, track.rows_asked, rows_asked(track.stored())) == (rows, rows, rows)


@pytest.mark.parametrize("sent", [{"metrics": [VIEWS]}, {"metrics": ["total"], "max_rows": 7}])
def test_rows_are_requested_only_if_max_rows_is_named_and_rows_are_tracked(sent):
    track = read_track(sent, POSTS).track
    assert (track.rows_asked, rows_asked(track.stored()), rows_asked(None)) == (None, None, None)


def test_old_stored_track_requests_no_rows():
    kept = {"metrics": [VIEWS], "row_key": "post.id", "max_rows": 100}
    assert rows_asked(orjson.dumps(kept).decode()) is None
