"""YouTube's parameters: what names a channel, a video or a playlist, in every address, and how lists are chosen."""

from __future__ import annotations

from upstreams.model.params import Param

HOSTS = r"(?:(?:m|music)\.)?youtube(?:-nocookie)?\.com"
CHANNEL_ID = Param(
    "channelId",
    "The channel's id.",
    "UC_x5XG1OV2P6uZZ5FSM9Ttw",
    forms=(rf"{HOSTS}/channel/([\w-]+)(?:/.*)?",),
    pattern=r"[\w-]{6,40}",
    problem="must be a channel's id, such as UC_x5XG1OV2P6uZZ5FSM9Ttw",
)
HANDLE = Param(
    "handle",
    "The channel's handle; needs the operator's key.",
    "GoogleDevelopers",
    strip="@",
    fold=True,
    forms=(rf"{HOSTS}/@([^/]+)(?:/.*)?",),
    pattern=r"(?!uc[\w-]{22}$)[^\s/?#@,]{1,60}",
    problem="must be a handle, such as GoogleDevelopers; a channel's id goes into channelId",
)
CHANNEL_URL = Param(
    "url",
    "The channel's address.",
    "https://youtube.com/channel/UC_x5XG1OV2P6uZZ5FSM9Ttw",
    type="url",
    forms=(rf"{HOSTS}/channel/([\w-]+)(?:/.*)?", rf"{HOSTS}/(@[^/]+)(?:/.*)?", rf"{HOSTS}/(user/[\w-]+)(?:/.*)?"),
    pattern=r"UC[\w-]{6,40}|@[^\s/?#@,]{1,60}|user/[\w-]{1,60}",
    problem="must be the address of a channel, such as https://www.youtube.com/@GoogleDevelopers",
)
VIDEO_ID = r"[\w-]{6,16}"
_VIDEO_FORMS = (
    rf"{HOSTS}/watch/?\?(?:[^#]*&)?v=([\w-]+)(?:[&#].*)?",
    rf"{HOSTS}/(?:shorts|live|embed|v|e)/([\w-]+)(?:/.*)?",
    r"youtu\.be/([\w-]+)(?:/.*)?",
)
VIDEO_URL = Param(
    "url",
    "The video's address, or its id.",
    "https://www.youtube.com/watch?v=D-lhorsDlUQ",
    type="url",
    required=True,
    forms=_VIDEO_FORMS,
    pattern=VIDEO_ID,
    problem="must be the address of a video, such as https://www.youtube.com/watch?v=D-lhorsDlUQ",
)
LANGUAGE = Param(
    "language",
    "The language of title and description, where the video has them in it; needs the operator's key.",
    "de",
    pattern=r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,4})?",
    problem="must be a language, such as de or pt-BR",
)
PLAYLIST = Param(
    "playlist_id",
    "The playlist's id, or its address.",
    "PLOU2XLYxmsIKpaV8h0AGE05so0fAwwfTw",
    required=True,
    forms=(rf"{HOSTS}/[a-z]+/?\?(?:[^#]*&)?list=([\w-]+)(?:[&#].*)?",),
    pattern=r"[\w-]{6,60}",
    problem="must be a playlist's id, such as PLOU2XLYxmsIKpaV8h0AGE05so0fAwwfTw",
)
QUERY = Param("query", "What to search for.", "structured concurrency", required=True)
HASHTAG = Param(
    "hashtag",
    "The hashtag.",
    "python",
    required=True,
    strip="#",
    fold=True,
    forms=(rf"{HOSTS}/hashtag/([^/]+)(?:/.*)?",),
    pattern=r"[^\s/?#]+",
    problem="must be one word, such as python",
)
REGION = Param(
    "region",
    "The country whose view it is, by its two letters.",
    "de",
    fold=True,
    pattern="[a-z]{2}",
    problem="must be the two letters of a country, such as de",
)
UPLOADED = Param(
    "uploadDate",
    "Only those since then, in days of UTC.",
    "this_week",
    choices=("today", "this_week", "this_month", "this_year"),
)
SORT_BY = Param("sortBy", "Order of the videos.", "popular", default="relevance", choices=("relevance", "popular"))
KIND = Param(
    "type", "All videos, or those of less than four minutes.", "shorts", default="all", choices=("all", "shorts")
)
EXTRAS = Param("includeExtras", "Whether to read counts and durations too.", "false", type="boolean", default=True)
