"""YouTube's parameters: channels, videos and playlists, with all forms of their URLs, and the options of lists."""

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
    "The channel's handle; requires the operator's key.",
    "GoogleDevelopers",
    strip="@",
    fold=True,
    forms=(rf"{HOSTS}/@([^/]+)(?:/.*)?",),
    pattern=r"(?!uc[\w-]{22}$)[^\s/?#@,]{1,60}",
    problem="must be a handle, such as GoogleDevelopers (send a channel's id as channelId)",
)
CHANNEL_URL = Param(
    "url",
    "The channel's URL.",
    "https://youtube.com/channel/UC_x5XG1OV2P6uZZ5FSM9Ttw",
    type="url",
    forms=(rf"{HOSTS}/channel/([\w-]+)(?:/.*)?", rf"{HOSTS}/(@[^/]+)(?:/.*)?", rf"{HOSTS}/(user/[\w-]+)(?:/.*)?"),
    pattern=r"UC[\w-]{6,40}|@[^\s/?#@,]{1,60}|user/[\w-]{1,60}",
    problem="must be the URL of a channel, such as https://www.youtube.com/@GoogleDevelopers",
)
VIDEO_ID = r"[\w-]{6,16}"
_VIDEO_FORMS = (
    rf"{HOSTS}/watch/?\?(?:[^#]*&)?v=([\w-]+)(?:[&#].*)?",
    rf"{HOSTS}/(?:shorts|live|embed|v|e)/([\w-]+)(?:/.*)?",
    r"youtu\.be/([\w-]+)(?:/.*)?",
)
VIDEO_URL = Param(
    "url",
    "The video's URL or id.",
    "https://www.youtube.com/watch?v=D-lhorsDlUQ",
    type="url",
    required=True,
    forms=_VIDEO_FORMS,
    pattern=VIDEO_ID,
    problem="must be the URL of a video, such as https://www.youtube.com/watch?v=D-lhorsDlUQ",
)
LANGUAGE = Param(
    "language",
    "The language of title and description, if the video has a translation; requires the operator's key.",
    "de",
    pattern=r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,4})?",
    problem="must be a language, such as de or pt-BR",
)
PLAYLIST = Param(
    "playlist_id",
    "The playlist's id or URL.",
    "PLOU2XLYxmsIKpaV8h0AGE05so0fAwwfTw",
    required=True,
    forms=(rf"{HOSTS}/[a-z]+/?\?(?:[^#]*&)?list=([\w-]+)(?:[&#].*)?",),
    pattern=r"[\w-]{6,60}",
    problem="must be a playlist's id, such as PLOU2XLYxmsIKpaV8h0AGE05so0fAwwfTw",
)
QUERY = Param("query", "Search query.", "structured concurrency", required=True)
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
    "The viewer's country, as a two-letter code.",
    "de",
    fold=True,
    pattern="[a-z]{2}",
    problem="must be a two-letter country code, such as de",
)
UPLOADED = Param(
    "uploadDate",
    "Only videos from this period, in whole UTC days.",
    "this_week",
    choices=("today", "this_week", "this_month", "this_year"),
)
SORT_BY = Param("sortBy", "Sort order of the videos.", "popular", default="relevance", choices=("relevance", "popular"))
KIND = Param(
    "type", "All videos, or only those under four minutes.", "shorts", default="all", choices=("all", "shorts")
)
EXTRAS = Param("includeExtras", "Whether to include counts and durations.", "false", type="boolean", default=True)
